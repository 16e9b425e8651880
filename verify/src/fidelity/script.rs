//! The library's scripts, with arguments that exercise every branch.

use super::Word;
use crate::sim::rng::Rng;
use redleash::unversioned::{ScriptText, scripts};

/// The key of the wait list.
const WAITERS: &str = "rl:W:{a}";

/// One script.
pub(super) struct Script(ScriptText);

/// All of them.
pub(super) fn all() -> Vec<Script> {
    scripts().into_iter().map(Script).collect()
}

impl Script {
    /// A call of it.
    pub(super) fn draw(&self, rng: &mut Rng, now_us: i64) -> Vec<Word> {
        let by_digest = rng.chance(50);
        let mut words: Vec<Word> = if by_digest {
            vec!["EVALSHA".into(), self.0.sha.clone().into()]
        } else {
            vec!["EVAL".into(), self.0.text.into()]
        };
        let lock = rng.pick(&["rl:L:{a}", "rl:L:{b}"]);
        let value = rng.pick(&["v1", "v2"]);
        match self.0.name {
            "release" => {
                let (keep, channel) = (rng.pick(&["0", "70000"]), rng.pick(&["", "channel"]));
                words.extend(
                    ["2", lock, WAITERS, value, keep, channel, rng.pick(&["0", "1"]), rng.pick(&["0", "7"]), "90000"]
                        .map(Word::from),
                );
            }
            "tell" => words.extend(["2", lock, WAITERS, "channel", rng.pick(&["0", "8"]), "90000"].map(Word::from)),
            "status" => words.extend(["3", lock, "rl:F:{a}", "rl:N"].map(Word::from)),
            "revoke" => {
                let now = rng.pick(&["0", "1"]);
                words.extend(["3", lock, "rl:F:{a}", "rl:R:{a}", "revoked|1", now].map(Word::from));
            }
            "blank" => {
                let nonce = rng.pick(&["", "f00d", "f00e"]);
                words.extend(["1".into(), "rl:N".into(), Word::Identity("abc"), nonce.into()]);
            }
            "init" => {
                let (nonce, settle) = (rng.pick(&["f00d", "f00e"]), rng.pick(&["0", "1", "1"]));
                words.extend(["1".into(), "rl:N".into(), Word::Identity("abc")]);
                words.extend([nonce, "1000:sim:3:2", settle].map(Word::from));
            }
            name => {
                let more: &[&str] = match name {
                    "acquire" => &[WAITERS],
                    "extend_many" => &["rl:L:{a}", "rl:R:{a}", "rl:L:{b}", "rl:R:{b}"],
                    _ => &[],
                };
                words.push((4 + more.len()).to_string().into());
                words.extend([lock, "rl:F:{a}", "rl:N", "rl:R:{a}"].map(Word::from));
                words.extend(more.iter().map(|key| Word::from(*key)));
                words.push(value.into());
                words.push(match rng.below(4) {
                    0 => "".into(),
                    3 => "-".into(),
                    1 => "abc:1:1000:sim:3:2:junk".into(),
                    _ => Word::Generation,
                });
                words.push(match rng.below(8) {
                    0 => "abc".into(),                                              // of an older version
                    1 => "abc000000000000000000000000000000000000000000000".into(), // another history
                    2 => Word::Identity("def"),
                    _ => Word::Identity("abc"),
                });
                words.push(rng.pick(&["1000:sim:3:2", "1000:sim:3:2", "1000:sim:3:2", "7:sim:3:2"]).into());
                words.push(format!("{:016x}", rng.bits()).into());
                // An hour, and one that is over.
                words.push(rng.pick(&["3600000000", "-20000000", "-20000000"]).into());
                let number = match rng.below(4) {
                    0 => "9007199254740991".to_string(),
                    1 => "5".to_string(),
                    _ => (now_us + rng.around(20_000_000)).to_string(),
                };
                let px = rng.pick(&["100000", "50000", "0", "x"]);
                match name {
                    "acquire" => {
                        words.push(px.into());
                        words.push(rng.pick(&["0", "1"]).into());
                        words.push(rng.pick(&["0", "80000"]).into());
                        words.push(rng.pick(&["0", "7000000", "9007199254740991"]).into());
                        words.push(rng.pick(&["0", "60000000"]).into());
                        words.push(rng.pick(&["7", "8", "9"]).into());
                    }
                    "extend_many" => {
                        words.extend([rng.pick(&["0", "1"]), value, px, "v2", "60000"].map(Word::from));
                    }
                    "extend" => words.extend([px, rng.pick(&["0", "1"])].map(Word::from)),
                    "adopt" => words.extend([px, rng.pick(&["v1", "v2"])].map(Word::from)),
                    "write_back" => words.push(number.into()),
                    _ => {}
                }
            }
        }
        words
    }
}
