use super::super::Mono;
use super::super::generation::{nonce, random_bits};
use super::super::init::{Ground, Init, Step};
use super::{Seeded, at};

const BLOCK: &str = "60000:c:3:2";
const N: usize = 3;

/// A master's generation or mark, and when a mark ends.
#[derive(Clone, Default)]
struct Site(Option<(String, Mono)>);

/// What an init asks, and what it has heard.
struct Asker {
    init: Init,
    asks: Step,
    nonce: u64,
    heard: Vec<Option<Ground>>,
    resumes: Mono,
    end: Option<Step>,
}

fn settled(m: usize, random: u64) -> String {
    format!("aa:17:{BLOCK}:{}", nonce(m, random))
}

fn mark(m: usize, random: u64) -> String {
    format!("init:aa:{}", nonce(m, random))
}

impl Site {
    /// As `blank.lua` and `init.lua` have it.
    fn serve(&mut self, m: usize, asks: &Step, random: u64, now: Mono) -> Ground {
        self.0.take_if(|(_, ends)| *ends <= now);
        let mark = mark(m, random);
        match (asks, &self.0) {
            (Step::Mark, None) => self.0 = Some((mark, now.plus(std::time::Duration::from_secs(10)))),
            (Step::Settle(_), Some((found, _))) if *found == mark => self.0 = Some((settled(m, random), Mono::NEVER)),
            _ => {}
        }
        let text = self.0.as_ref().map(|(text, _)| text.clone());
        Ground { votes: text.as_ref().is_some_and(|t| !t.starts_with("init:")), text, others: 0 }
    }
}

/// Several inits at once, each command of each at its own time on each master; some die on the way. How they ended.
fn meet(inits: usize, deaths: u64, seeded: &mut Seeded) -> (Vec<Option<Step>>, Vec<Site>) {
    let mut now = at(1_000);
    let mut sites = vec![Site::default(); N];
    let ask = |asks| (asks, vec![None; N]);
    let mut askers: Vec<Asker> = (0..inits)
        .map(|_| {
            let (asks, heard) = ask(Step::Look);
            Asker { init: Init::new(BLOCK, now), asks, nonce: 0, heard, resumes: now, end: None }
        })
        .collect();
    for _ in 0..200_000 {
        let waiting: Vec<usize> = (0..inits).filter(|i| askers[*i].end.is_none()).collect();
        if waiting.is_empty() {
            break;
        }
        now = now.plus(std::time::Duration::from_micros(seeded.below(2_000)));
        let asker = &mut askers[waiting[seeded.below(waiting.len() as u64) as usize]];
        if asker.resumes > now {
            continue;
        }
        if seeded.below(1_000) < deaths {
            asker.end = Some(Step::NoAnswer);
            continue;
        }
        let open: Vec<usize> = (0..N).filter(|m| asker.heard[*m].is_none()).collect();
        let m = open[seeded.below(open.len() as u64) as usize];
        asker.heard[m] = Some(sites[m].serve(m, &asker.asks, asker.nonce, now));
        if open.len() > 1 {
            continue;
        }
        let (back, step) = asker.init.after(&asker.heard, now, seeded.below(u64::MAX));
        for (m, site) in sites.iter_mut().enumerate() {
            site.0.take_if(|(text, _)| back.is_some_and(|n| *text == mark(m, n)));
        }
        match &step {
            Step::Mark => {
                asker.nonce = seeded.below(u64::MAX);
                asker.init.marks(asker.nonce);
            }
            Step::Settle(nonce) => asker.nonce = *nonce,
            Step::Pause(pause) => asker.resumes = now.plus(*pause),
            Step::Look => {}
            end => asker.end = Some(end.clone()),
        }
        (asker.asks, asker.heard) = ask(step);
    }
    (askers.into_iter().map(|asker| asker.end).collect(), sites)
}

#[test]
fn many_inits_at_once_all_end_well_and_their_masters_are_settled_by_one() {
    for seed in 0..400 {
        let (ends, sites) = meet(6, 0, &mut Seeded(seed));
        assert!(ends.iter().all(|end| matches!(end, Some(Step::Done { .. }))), "{seed}: {ends:?}");
        assert!(ends.contains(&Some(Step::Done { already: false })), "{seed}: {ends:?}");
        let by = |m: usize| sites[m].0.as_ref().and_then(|(text, _)| random_bits(text.rsplit(':').next()?, m));
        assert!(by(0).is_some() && (1..N).all(|m| by(m) == by(0)), "{seed}");
    }
}

#[test]
fn the_death_of_some_does_not_keep_the_others_from_ending_well() {
    let mut deaths = 0;
    for seed in 0..400 {
        let (ends, _) = meet(4, 15, &mut Seeded(seed));
        deaths += ends.iter().filter(|end| **end == Some(Step::NoAnswer)).count();
        // One that dies between two settlings may leave a master whose mark ends first: that is refused, and waits.
        let fine = |end: &Option<Step>| matches!(end, Some(Step::Done { .. } | Step::NoAnswer));
        assert!(ends.iter().all(fine), "{seed}: {ends:?}");
    }
    assert!(deaths > 50, "{deaths}");
}

fn ground(text: Option<&str>, others: u64) -> Option<Ground> {
    let votes = text.is_some_and(|text| !text.starts_with("init:"));
    Some(Ground { text: text.map(String::from), others, votes })
}

#[test]
fn an_empty_master_beside_settled_ones_is_never_settled() {
    let settled = settled(0, 5);
    let mut init = Init::new(BLOCK, at(0));
    let mixed = [ground(Some(&settled), 2), ground(None, 0), ground(Some(&settled), 1)];
    let mut steps = Vec::new();
    while steps.last() != Some(&Step::Refused) {
        steps.push(init.after(&mixed, at(steps.len() as u64), 7).1);
        assert!(steps.len() < 20 && matches!(steps.last(), Some(Step::Pause(_) | Step::Refused)), "{steps:?}");
    }
    // Nor when all are empty afterwards: they have forgotten.
    let mut init = Init::new(BLOCK, at(0));
    assert!(matches!(init.after(&mixed, at(0), 7).1, Step::Pause(_)));
    let empty = [ground(None, 0), ground(None, 0), ground(None, 0)];
    assert!(matches!(init.after(&empty, at(1), 7).1, Step::Pause(_)));
}

#[test]
fn masters_are_settled_by_marks_that_were_seen_everywhere_twice() {
    let marks = [0, 1, 2].map(|m| ground(Some(&mark(m, 9)), 0));
    let mut init = Init::new(BLOCK, at(0));
    assert_eq!(init.after(&marks, at(1), 0), (None, Step::Look));
    // One was absent in between, so nothing is known of it.
    let gap = [marks[0].clone(), ground(None, 0), marks[2].clone()];
    assert!(matches!(init.after(&gap, at(2), 0), (None, Step::Pause(_))));
    assert_eq!(init.after(&marks, at(3), 0), (None, Step::Look));
    assert_eq!(init.after(&marks, at(4), 0), (None, Step::Settle(9)));
    // The same mark on two masters is that of one server with two names.
    let twice = [marks[0].clone(), marks[0].clone(), marks[2].clone()];
    assert!(matches!(Init::new(BLOCK, at(0)).after(&twice, at(1), 0), (None, Step::Pause(_))));
    // A lock is held there.
    let used = [marks[0].clone(), ground(Some(&mark(1, 9)), 1), marks[2].clone()];
    assert_eq!(Init::new(BLOCK, at(0)).after(&used, at(1), 0).1, Step::Refused);
}
