//! A pid namespace (Linux): when its first process ends, the kernel kills all others in it. Nothing escapes by forking,
//! by setsid, or because nobody is left to look for it.

#[cfg(target_os = "linux")]
mod imp {
    use crate::system::tree::Tree;
    use nix::sched::{CloneFlags, unshare};
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::process::{Pid, Signal, getegid, geteuid, getpid, set_parent_process_death_signal};
    use rustix::thread::{CapabilitySet, CapabilitySets};
    use rustix::thread::{capabilities, configure_capability_in_ambient_set, set_capabilities};
    use std::{fs, io};

    fn because(what: &str, e: impl Into<io::Error>) -> io::Error {
        let e = e.into();
        io::Error::new(e.kind(), format!("{what}: {e}"))
    }

    /// Makes the next child of this process the first process of a new pid namespace. This process must have one thread
    /// only.
    pub(crate) fn enter() -> io::Result<()> {
        let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
        let (uid, gid) = (geteuid(), getegid());
        match unshare(flags) {
            Ok(()) => {}
            // This user has no right to do so here, but has it in a user namespace, as the same user.
            Err(nix::errno::Errno::EPERM) => {
                unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(|e| {
                    let where_to_look = "user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor, the \
                                         container's seccomp";
                    because(&format!("the kernel refuses this user a user and a pid namespace ({where_to_look})"), e)
                })?;
                let map = |file: &str, text: String| {
                    let refused = |e| because(&format!("the kernel refuses a user namespace ({file}; AppArmor?)"), e);
                    fs::write(format!("/proc/self/{file}"), text).map_err(refused)
                };
                map("setgroups", "deny".into())?;
                map("uid_map", format!("{uid} {uid} 1"))?;
                map("gid_map", format!("{gid} {gid} 1"))?;
                keep_the_right().map_err(|e| because("the right to mount /proc cannot be kept", e))?;
            }
            Err(e) => return Err(because("the kernel refuses a pid namespace", e)),
        }
        // What is mounted inside is not seen outside.
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
            .map_err(|e| because("the kernel refuses mounts in a namespace of its own (AppArmor?)", e))
    }

    /// Keeps the right to mount through the exec of the next stage, where a user who is not root would lose it.
    fn keep_the_right() -> io::Result<()> {
        let mut sets: CapabilitySets = capabilities(None)?;
        sets.inheritable |= CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets)?;
        Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
    }

    /// Prepares the namespace, in its first process: /proc shows the namespace, the right that this took is given up,
    /// and the process dies with the warden.
    pub(crate) fn settle() -> io::Result<()> {
        if getpid() != Pid::INIT {
            return Err(io::Error::other("this is not the first process of a pid namespace"));
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).map_err(|e| {
            because("the kernel refuses a /proc of the namespace (in a container: parts of its /proc are hidden)", e)
        })?;
        if !geteuid().is_root() {
            let none = CapabilitySet::empty();
            // Ambient ones go with the inheritable ones.
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        }
        Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
    }

    /// The pid, seen from outside, of the process that has the pid `inside` in the namespace below `warden`.
    pub(crate) fn pid_outside(warden: Pid, inside: i32) -> Option<Pid> {
        let number = inside.to_string();
        let is_it = |pid: i32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            line.split_whitespace().last() == Some(&number)
        };
        let found = Tree::below(&[warden]).look().ok()?;
        // Deeper namespaces have their own numbers; the one above all of them comes first.
        found.bound.iter().map(|process| process.pid).find(|pid| is_it(*pid)).and_then(Pid::from_raw)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use rustix::process::Pid;
    use std::io;

    fn unsupported() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "this operating system has no pid namespaces")
    }

    pub(crate) fn enter() -> io::Result<()> {
        Err(unsupported())
    }

    pub(crate) fn settle() -> io::Result<()> {
        Err(unsupported())
    }

    pub(crate) fn pid_outside(_: Pid, _: i32) -> Option<Pid> {
        None
    }
}

pub(crate) use imp::{enter, pid_outside, settle};
