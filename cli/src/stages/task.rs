//! What the supervisor is to do, as it travels in its arguments: `NAME ON_LOST KILL_AFTER_NS MARGIN_NS
//! foreground|background contained|free CMD ARGS...`.

use crate::args::OnLost;
use crate::ending::Times;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task<'a> {
    /// The lock's name.
    pub(crate) name: &'a str,
    pub(crate) on_lost: OnLost,
    pub(crate) times: Times,
    /// The command has the foreground of the terminal from its first instruction on.
    pub(crate) foreground: bool,
    /// The supervisor is the first process of a pid namespace.
    pub(crate) contained: bool,
    pub(crate) command: &'a [OsString],
}

const FOREGROUND: [&str; 2] = ["background", "foreground"];
const CONTAINED: [&str; 2] = ["free", "contained"];

impl Task<'_> {
    pub(crate) fn to_args(self) -> Vec<OsString> {
        let Times { kill_after, margin } = self.times;
        let own = [
            self.name.to_string(),
            on_lost_word(self.on_lost).into(),
            kill_after.as_nanos().to_string(),
            margin.as_nanos().to_string(),
            foreground_word(self.foreground).into(),
            CONTAINED[usize::from(self.contained)].into(),
        ];
        own.into_iter().map(OsString::from).chain(self.command.iter().cloned()).collect()
    }

    pub(crate) fn parse(args: &[OsString]) -> Option<Task<'_>> {
        let word = |i: usize| args.get(i)?.to_str();
        let span = |i: usize| Some(Duration::from_nanos(word(i)?.parse().ok()?));
        Some(Task {
            name: word(0)?,
            on_lost: parse_on_lost(args.get(1)?)?,
            times: Times { kill_after: span(2)?, margin: span(3)? },
            foreground: parse_foreground(args.get(4)?)?,
            contained: either(CONTAINED, word(5)?)?,
            command: args.get(6..).filter(|command| !command.is_empty())?,
        })
    }
}

pub(crate) fn on_lost_word(on_lost: OnLost) -> &'static str {
    match on_lost {
        OnLost::Kill => "kill",
        OnLost::Term => "term",
        OnLost::Warn => "warn",
    }
}

pub(crate) fn parse_on_lost(word: &OsStr) -> Option<OnLost> {
    [OnLost::Kill, OnLost::Term, OnLost::Warn].into_iter().find(|on_lost| word == on_lost_word(*on_lost))
}

pub(crate) fn foreground_word(foreground: bool) -> &'static str {
    FOREGROUND[usize::from(foreground)]
}

pub(crate) fn parse_foreground(word: &OsStr) -> Option<bool> {
    either(FOREGROUND, word.to_str()?)
}

fn either(words: [&str; 2], word: &str) -> Option<bool> {
    words.iter().position(|other| *other == word).map(|i| i == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let command = ["sh".into(), "-c".into(), "exit 3".into()];
        for on_lost in [OnLost::Kill, OnLost::Term, OnLost::Warn] {
            for (foreground, contained) in [(false, true), (true, false)] {
                let times = Times::new(Duration::from_secs(15), None);
                let task = Task { name: "a b", on_lost, times, foreground, contained, command: &command };
                assert_eq!(Task::parse(&task.to_args()), Some(task));
            }
        }
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for words in [
            &["x", "kill", "1", "1", "background", "free"][..],
            &["x", "kill", "1", "1", "background", "open", "true"],
            &["x", "spare", "1", "1", "background", "free", "true"],
            &["x", "kill", "1", "soon", "background", "free", "true"],
        ] {
            assert_eq!(Task::parse(&args(words)), None, "{words:?}");
        }
    }
}
