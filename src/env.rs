//! The variables of the environment that name a deployment, for programs and the command line alike.
//!
//! [`ClientBuilder::from_env`](crate::ClientBuilder::from_env) reads them; the program `redleash` has an option for
//! each.

use crate::builder::ClientBuilder;
use crate::client::Client;
use crate::duration::duration;
use crate::engine::error::Error;
use std::ffi::OsString;

/// The URLs of the masters, separated by commas; as [`ClientBuilder::node`](crate::ClientBuilder::node) takes them.
pub const NODES: &str = "REDLEASH_NODES";
/// The prefix of all keys; as [`ClientBuilder::namespace`](crate::ClientBuilder::namespace) takes it.
pub const NAMESPACE: &str = "REDLEASH_NAMESPACE";
/// The name of the deployment; as [`ClientBuilder::deployment`](crate::ClientBuilder::deployment) takes it.
pub const DEPLOYMENT: &str = "REDLEASH_DEPLOYMENT";
/// The longest lease of any client of the deployment: `90s`, `1m30s`, or a number of seconds.
pub const MAX_LEASE: &str = "REDLEASH_MAX_LEASE";
/// The fault margin, a number of masters; as [`ClientBuilder::fault_margin`](crate::ClientBuilder::fault_margin) takes
/// it.
pub const FAULT_MARGIN: &str = "REDLEASH_FAULT_MARGIN";

impl Client {
    /// A client of the deployment that the environment names: short for
    /// [`ClientBuilder::from_env`](crate::ClientBuilder::from_env) and [`build`](crate::ClientBuilder::build).
    ///
    /// # Errors
    ///
    /// Those of the two.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), redleash::Error> {
    /// let client = redleash::Client::from_env()?; // REDLEASH_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Result<Client, Error> {
        ClientBuilder::from_env()?.build()
    }
}

impl ClientBuilder {
    /// The settings of the deployment that the environment names, by the variables that the program `redleash` reads,
    /// with the same meaning: [`REDLEASH_NODES`](NODES), which is required, [`REDLEASH_NAMESPACE`](NAMESPACE),
    /// [`REDLEASH_DEPLOYMENT`](DEPLOYMENT), [`REDLEASH_MAX_LEASE`](MAX_LEASE) and
    /// [`REDLEASH_FAULT_MARGIN`](FAULT_MARGIN). All else has its default; the ttl is lowered to `max_lease` where that
    /// is shorter.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] whose field is the variable, if one is wrong or `REDLEASH_NODES` names nobody: there is no
    /// default, because the host's own server would be a lock that no other host sees. No URL is repeated in an error:
    /// it may have a password in it.
    pub fn from_env() -> Result<ClientBuilder, Error> {
        from_variables(|name| std::env::var_os(name))
    }
}

fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<ClientBuilder, Error> {
    let get = |variable: &'static str| match get(variable).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Error::config(variable, "it is not UTF-8")),
    };
    let urls = get(NODES)?.unwrap_or_default();
    let urls: Vec<&str> = urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
    if urls.is_empty() {
        let problem = "it names no masters; set it, the same on all hosts, for example to \
                       redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
        return Err(Error::config(NODES, problem));
    }
    let mut builder = Client::builder().nodes(urls);
    if let Some(namespace) = get(NAMESPACE)? {
        builder = builder.namespace(namespace);
    }
    if let Some(deployment) = get(DEPLOYMENT)? {
        builder = builder.deployment(deployment);
    }
    if let Some(text) = get(MAX_LEASE)? {
        let max_lease = duration(&text).ok_or_else(|| {
            Error::config(
                MAX_LEASE,
                format!("{text:?} is no duration such as 90s or 1m30s (a number alone is seconds)"),
            )
        })?;
        builder = builder.max_lease(max_lease).ttl_at_most(max_lease);
    }
    if let Some(text) = get(FAULT_MARGIN)? {
        let margin =
            text.parse().map_err(|_| Error::config(FAULT_MARGIN, format!("{text:?} is no number of masters")))?;
        builder = builder.fault_margin(margin);
    }
    builder.checked().map(|_| ()).map_err(named)?;
    Ok(builder)
}

/// The error of a setting, with the variable that it came from.
fn named(error: Error) -> Error {
    match error {
        Error::Config(mut config) => {
            config.field = match config.field {
                "nodes" => NODES,
                "namespace" => NAMESPACE,
                "deployment" => DEPLOYMENT,
                "max_lease" | "ttl" => MAX_LEASE,
                "fault_margin" => FAULT_MARGIN,
                other => other,
            };
            Error::Config(config)
        }
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::time::Duration;

    const THREE: (&str, &str) = (NODES, "redis://:hunter2@a, redis://b ,,redis://c,");

    fn read(variables: &[(&str, &str)]) -> Result<ClientBuilder, Error> {
        from_variables(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn the_settings_are_those_of_the_variables() {
        let all = [THREE, (NAMESPACE, "ns"), (DEPLOYMENT, "blue"), (MAX_LEASE, "1m30s"), (FAULT_MARGIN, "1")];
        let (addresses, settings) = read(&all).unwrap().checked().unwrap();
        let labels: Vec<&str> = addresses.iter().map(|a| a.label.as_str()).collect();
        assert_eq!(labels, ["a:6379", "b:6379", "c:6379"]);
        assert_eq!((settings.max_lease, settings.ttl), (Duration::from_secs(90), Duration::from_secs(30)));
        assert_eq!((settings.deployment.block(), settings.quorum.margin()), ("90000:blue:3:3", 1));
        assert_eq!(settings.namespace.generation(), "ns:N");
        let (_, settings) = read(&[THREE, (MAX_LEASE, "20")]).unwrap().checked().unwrap();
        assert_eq!((settings.max_lease, settings.ttl), (Duration::from_secs(20), Duration::from_secs(20)));
        let (_, settings) = read(&[THREE]).unwrap().checked().unwrap();
        assert_eq!(
            (settings.deployment.block(), settings.namespace.generation()),
            ("60000:default:3:2", "rl:N".to_string())
        );
    }

    #[test]
    fn an_error_names_the_variable_and_shows_no_password() {
        let wrong: [&[(&str, &str)]; 10] = [
            &[],
            &[(NODES, " , ")],
            &[(NODES, "redis://:hunter2@a,http://:hunter2@b")],
            &[(NODES, "redis://:hunter2@a,redis://:hunter2@a")],
            &[(NAMESPACE, ""), THREE],
            &[(DEPLOYMENT, "not a name"), THREE],
            &[(MAX_LEASE, "soon"), THREE],
            &[(MAX_LEASE, "1ms"), THREE],
            &[(FAULT_MARGIN, "many"), THREE],
            &[(FAULT_MARGIN, "3"), THREE],
        ];
        for variables in wrong {
            let Err(Error::Config(error)) = read(variables) else { panic!("{variables:?}") };
            let variable = variables.first().map_or(NODES, |(name, _)| *name);
            assert_eq!(error.field, variable, "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let binary = |name: &str| (name == NODES).then(|| OsString::from_vec(vec![b'r', 0xff]));
        assert!(matches!(from_variables(binary), Err(Error::Config(e)) if e.field == NODES));
    }

    #[test]
    fn durations_are_those_of_the_command_line() {
        let all = [
            ("15s", 15_000),
            ("500ms", 500),
            ("1.5", 1_500),
            ("60", 60_000),
            ("1m30s", 90_000),
            (".5s", 500),
            ("2h", 7_200_000),
        ];
        for (text, ms) in all {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "1e3", "inf", "5x", "1.2.3"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
