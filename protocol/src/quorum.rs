//! How many votes make a quorum.

/// `N` masters, a fault margin `f`, and the quorum `q = floor((N + f) / 2) + 1`.
///
/// Two quorums share at least `2q - N >= f + 1` masters, so up to `f` masters may forget, evict or jump their clocks
/// and one honest master is still in both (`docs/SAFETY.md#quorum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    n: u32,
    f: u32,
    q: u32,
}

/// The largest number of masters: sets of masters are 32-bit masks.
pub const MAX_MASTERS: usize = 32;

impl Quorum {
    /// The quorum of `n` masters with fault margin `f`; `None` if `n` is not in `1..=32` or the quorum would be more
    /// than all masters.
    pub fn new(n: usize, f: usize) -> Option<Quorum> {
        if n == 0 || n > MAX_MASTERS || f >= n {
            return None;
        }
        let (n, f) = (n as u32, f as u32);
        let q = (n + f) / 2 + 1;
        (q <= n).then_some(Quorum { n, f, q })
    }

    /// The number of masters.
    pub fn masters(self) -> usize {
        self.n as usize
    }

    /// The fault margin.
    pub fn margin(self) -> usize {
        self.f as usize
    }

    /// The number of votes that decide.
    pub fn votes(self) -> usize {
        self.q as usize
    }

    /// Whether `yes` votes are a quorum.
    pub fn reached(self, yes: usize) -> bool {
        yes >= self.votes()
    }

    /// Whether a quorum can no longer come about when `no` masters have said anything but yes.
    pub fn out_of_reach(self, no: usize) -> bool {
        self.masters().saturating_sub(no) < self.votes()
    }

    /// How many masters may be down without stopping the locks.
    pub fn tolerates(self) -> usize {
        self.masters() - self.votes()
    }

    /// The set of all masters as a bit mask.
    pub fn all(self) -> u32 {
        u32::MAX >> (32 - self.n)
    }
}
