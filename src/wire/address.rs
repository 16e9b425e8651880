//! The address of a master, as its URL gives it.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// The URL of a master, read and found fit.
pub(crate) struct Address {
    pub(super) info: ConnectionInfo,
    /// Host and port or the path of a socket, without credentials.
    pub(crate) label: String,
}

/// What the URL of a master looks like.
const SHAPE: &str = "give redis://[[user]:password@]host[:port][/db] or unix:///path, and percent-encode what is \
                     neither letter nor digit in a user or password";

impl Address {
    /// Reads a URL; the error says what is wrong with it and repeats nothing that could be a password.
    pub(crate) fn parse(url: &str) -> Result<Address, String> {
        let url = url.trim();
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.contains("sentinel") {
            return Err("Sentinel is not supported: name the independent masters themselves".into());
        }
        if scheme.contains("cluster") {
            return Err("Redis Cluster is not supported: its servers are not independent copies".into());
        }
        if matches!(scheme, "rediss" | "valkeys") {
            return Err("TLS is not built in yet: use redis://, over a network that you trust".into());
        }
        if !matches!(scheme, "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix") {
            return Err(format!("it does not begin with redis:// or unix://; {SHAPE}"));
        }
        if url.split_once("://").is_some_and(|(_, rest)| rest.split(['/', '?']).next().unwrap_or("").contains(',')) {
            return Err("it lists several hosts: give each master a URL of its own".into());
        }
        // Read as it stands, the beginning of such a password would be the port of a host that has the user's name.
        if !scheme.ends_with("unix") && url.rsplit_once('@').is_some_and(|(head, _)| ends_the_host(head)) {
            return Err(
                "an '@' stands behind the host: write '/', '?', '#' and '@' in a password as %2F, %3F, %23 and %40"
                    .into(),
            );
        }
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map_or("", |(user, _)| user);
        if !scheme.ends_with("unix") && !user.is_empty() && !user.contains(':') {
            return Err(
                "what stands before its '@' is a user without a password: a password stands behind a colon, as in \
                 redis://:PASSWORD@host or redis://USER:PASSWORD@host"
                    .into(),
            );
        }
        let info = url
            .into_connection_info()
            .map_err(|e| format!("it is malformed ({}); {SHAPE}", harmless(url, &e.to_string())))?;
        let label = match info.addr() {
            // As it stands in a URL, so that it can be copied into one.
            ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            ConnectionAddr::TcpTls { .. } => return Err("TLS is not supported yet: use redis://".into()),
            _ => return Err("this kind of address is not supported".into()),
        };
        Ok(Address { info, label })
    }
}

/// Whether the part of a URL with user, password and host ends in `head`.
fn ends_the_host(head: &str) -> bool {
    head.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']))
}

/// The text of an error about `url`, unless it repeats what stands where a password may.
fn harmless(url: &str, text: &str) -> String {
    let secret = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(credentials, _)| credentials);
    let leaks = secret.is_some_and(|s| s.split(':').any(|part| !part.is_empty() && text.contains(part)));
    if leaks { "check the user, the password and the host".into() } else { text.to_string() }
}
