//! A file descriptor that ends a poll.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;

#[cfg(all(target_os = "linux", not(redleash_portable)))]
mod imp {
    use super::{AsFd, BorrowedFd, OwnedFd, io};
    use rustix::event::{EventfdFlags, eventfd};

    /// An eventfd.
    pub(crate) struct Wake(OwnedFd);

    impl Wake {
        pub(crate) fn new() -> io::Result<Wake> {
            Ok(Wake(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
        }

        /// Makes the descriptor readable.
        pub(crate) fn signal(&self) {
            // Full means that it is readable already.
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }

        /// Makes it unreadable again.
        pub(crate) fn drain(&self) {
            let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
        }

        pub(crate) fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(all(target_os = "linux", not(redleash_portable))))]
mod imp {
    use super::{AsFd, BorrowedFd, OwnedFd, io};
    use std::os::unix::net::UnixStream;

    /// A pair of sockets.
    pub(crate) struct Wake {
        read: OwnedFd,
        write: OwnedFd,
    }

    impl Wake {
        pub(crate) fn new() -> io::Result<Wake> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            write.set_nonblocking(true)?;
            Ok(Wake { read: read.into(), write: write.into() })
        }

        /// Makes the descriptor readable.
        pub(crate) fn signal(&self) {
            // Full means that it is readable already.
            let _ = rustix::io::write(&self.write, &[1u8]);
        }

        /// Makes it unreadable again.
        pub(crate) fn drain(&self) {
            let mut sink = [0u8; 64];
            while matches!(rustix::io::read(&self.read, &mut sink), Ok(n) if n > 0) {}
        }

        pub(crate) fn fd(&self) -> BorrowedFd<'_> {
            self.read.as_fd()
        }
    }
}

pub(crate) use imp::Wake;
