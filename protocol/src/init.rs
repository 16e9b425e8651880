//! Settling new masters: which init does it when several are under way, and when it is refused.
//!
//! Proof obligation: a master is settled, so that it votes at once, only if it bears the mark of an init whose marks
//! stood on *all* masters at one moment. Then all were new and empty at that moment, and this one has neither voted nor
//! forgotten since: the mark would be absent. That all bore it at one moment is known if two looks one after the other
//! found it everywhere (a mark is set once, so it stood in between), or if a master has a generation with the nonce of
//! that mark: somebody else knew it. A master that is empty beside settled ones is not settled: it may have forgotten a
//! vote.

use super::generation::{Generation, INIT_MARK, random_bits};
use super::time::Mono;
use std::time::Duration;

/// What an init finds on a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// What stands for the generation: one, or the mark of an init.
    pub text: Option<String>,
    /// The number of other keys.
    pub others: u64,
    /// Whether it has a generation of its present process, and votes.
    pub votes: bool,
}

/// How long an init waits for others under way, and for the marks of those that died meanwhile, which last 10 s.
pub const OTHERS_TIMEOUT: Duration = Duration::from_secs(15);

/// How often an init looks again where an empty master stands beside settled ones: another init may be settling it now.
const LOOKS: u32 = 5;

/// What an init does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look at all masters.
    Look,
    /// Mark all masters that are new and empty, with a nonce that was not used before.
    Mark,
    /// Settle those that bear the marks of this nonce: its own, or those of another init.
    Settle(u64),
    /// Look again after a pause.
    Pause(Duration),
    /// All masters are settled by the same settings and vote; whether others did all of it.
    Done {
        /// Nothing was done by this init.
        already: bool,
    },
    /// A master is not new and empty, or another init does not come to an end.
    Refused,
    /// A master does not answer.
    NoAnswer,
}

/// One init.
#[derive(Clone, Debug)]
pub struct Init {
    block: String,
    limit: Mono,
    marked: Option<u64>,
    /// All masters bore the marks of this nonce when they were looked at last.
    seen: Option<u64>,
    settling: bool,
    /// A master was settled: if all are empty afterwards, they have forgotten.
    known: bool,
    pauses: u32,
    gaps: u32,
}

/// The nonce whose mark, or whose generation, stands on master `i`.
fn nonce(ground: &Ground, i: usize) -> Option<u64> {
    let text = ground.text.as_deref()?;
    let hex = text.rsplit(':').next().filter(|_| is_mark(ground) || Generation::parse(text).is_some())?;
    random_bits(hex, i)
}

fn is_mark(ground: &Ground) -> bool {
    ground.text.as_deref().is_some_and(|text| text.starts_with(INIT_MARK))
}

impl Init {
    /// An init that begins now with [`Step::Look`], for the deployment `block`.
    pub fn new(block: &str, now: Mono) -> Init {
        let limit = now.plus(OTHERS_TIMEOUT);
        Init { block: block.into(), limit, marked: None, seen: None, settling: false, known: false, pauses: 0, gaps: 0 }
    }

    /// Notes the nonce of the marks that are about to be set.
    pub fn marks(&mut self, nonce: u64) {
        self.marked = Some(nonce);
    }

    /// The step after a round in which the masters showed `grounds`, and the nonce of our own marks if they are taken
    /// back before it.
    pub fn after(&mut self, grounds: &[Option<Ground>], now: Mono, random: u64) -> (Option<u64>, Step) {
        let step = self.decide(grounds, now, random);
        let goes_on = matches!(step, Step::Look | Step::Settle(_) | Step::Done { .. });
        (if goes_on { None } else { self.marked.take() }, step)
    }

    fn decide(&mut self, grounds: &[Option<Ground>], now: Mono, random: u64) -> Step {
        let Some(grounds) = grounds.iter().cloned().collect::<Option<Vec<Ground>>>() else { return Step::NoAnswer };
        let ours = |g: &Ground| g.text.as_deref().and_then(Generation::parse).is_some_and(|g| g.block == self.block);
        if grounds.iter().all(|g| g.votes && ours(g)) {
            return Step::Done { already: !self.settling };
        }
        let used = |g: &Ground| g.others > 0 && !g.votes || g.text.is_some() && !is_mark(g) && !(ours(g) && g.votes);
        if grounds.iter().any(used) {
            return Step::Refused;
        }
        let known = grounds.iter().any(|g| g.votes);
        let first = nonce(&grounds[0], 0);
        if first.is_some() && grounds.iter().enumerate().all(|(i, g)| nonce(g, i) == first) {
            let seen = std::mem::replace(&mut self.seen, first);
            let (Some(nonce), true) = (first, known || seen == first) else { return Step::Look };
            self.settling = true;
            // Its mark would be here no more if it did not come to this one.
            return if now < self.limit { Step::Settle(nonce) } else { Step::Refused };
        }
        self.seen = None;
        self.known |= known;
        let foreign = |(i, g): (usize, &Ground)| is_mark(g) && (self.marked.is_none() || nonce(g, i) != self.marked);
        if grounds.iter().enumerate().any(foreign) {
            self.gaps = 0;
        } else if self.known {
            self.gaps += 1;
        } else if self.marked.is_none() {
            return Step::Mark;
        }
        if now >= self.limit || self.gaps > LOOKS {
            return Step::Refused;
        }
        self.pauses += 1;
        Step::Pause(Duration::from_millis(5 + random % (20 << self.pauses.min(4))))
    }
}
