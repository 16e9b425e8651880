use super::super::acquire::{Acquire, End, Heard, PAUSE_AT_ONCE, Plan, SPLITS_AT_ONCE, Step, Wait};
use super::super::quorum::Quorum;
use super::super::retry::{Backoff, MAY_BE_FREE_WITHIN};
use super::super::round::Judgement;
use super::super::time::Mono;
use super::{Seeded, at, ms};
use std::time::Duration;

const OUTAGE_PATIENCE: Duration = ms(10_000);
const FOREVER: Wait = Wait::Forever { outage_patience: OUTAGE_PATIENCE };
const TOOK: Duration = ms(3);
/// The number of a call that listens.
const ME: u64 = 5 << 28 | 77;

fn plan(wait: Wait) -> Plan {
    Plan {
        quorum: Quorum::new(3, 0).unwrap(),
        wait,
        tries: None,
        fail_fast: false,
        backoff: Backoff::DEFAULT,
        custom_pauses: false,
        always_full: false,
        yields: false,
    }
}

fn judgements() -> [Judgement; 12] {
    [
        Judgement::HeldByOther(None),
        Judgement::HeldByOther(Some(ms(5))),
        Judgement::HeldByOther(Some(ms(60_000))),
        Judgement::Split,
        Judgement::Absent,
        Judgement::Unclear,
        Judgement::TooSlow,
        Judgement::NoQuorum,
        Judgement::Quarantined(ms(300)),
        Judgement::Quarantined(ms(60_000)),
        Judgement::Conflict(0, "hash".into()),
        Judgement::Mismatch(0, "1:c:3:2".into()),
    ]
}

/// How a call may end on a judgement that is not contention.
fn error_of(judgement: &Judgement) -> Option<End> {
    match judgement {
        Judgement::TooSlow => Some(End::TooSlow),
        Judgement::NoQuorum => Some(End::NoQuorum),
        Judgement::Quarantined(_) => Some(End::Quarantined),
        Judgement::Conflict(..) => Some(End::Conflict),
        Judgement::Mismatch(..) => Some(End::Mismatch),
        _ => None,
    }
}

fn may_be_free(hint: Duration) -> bool {
    hint <= MAY_BE_FREE_WITHIN
}

/// Whether nobody may hold the lock, by what a round found.
fn may_be_nobodys(judgement: &Judgement) -> bool {
    match judgement {
        Judgement::HeldByOther(hint) => hint.is_some_and(|hint| hint <= MAY_BE_FREE_WITHIN),
        Judgement::Split | Judgement::Absent | Judgement::Unclear => true,
        _ => false,
    }
}

/// A call that is about to get the judgement of a round.
#[derive(Clone)]
struct Call {
    plan: Plan,
    machine: Acquire,
    now: Mono,
    full: bool,
    rounds: u32,
    rounds_since_sleep: u32,
    outage_since: Option<Mono>,
    /// Whether the last counted judgement was contention.
    refused: bool,
}

impl Call {
    fn new(plan: Plan) -> Call {
        let mut machine = Acquire::new(plan);
        let full = plan.always_full;
        assert_eq!(machine.first(at(0)), Step::Round { full, entry: None });
        Call { plan, machine, now: at(0), full, rounds: 1, rounds_since_sleep: 1, outage_since: None, refused: false }
    }

    fn limit(&self) -> Mono {
        match self.plan.wait {
            Wait::Until(limit) => limit,
            _ => Mono::NEVER,
        }
    }

    /// Tells one judgement and checks the answer; false if the call is over.
    fn step(&mut self, judgement: &Judgement, random: u64) -> bool {
        let end = error_of(judgement);
        let fatal = matches!(end, Some(End::Conflict | End::Mismatch));
        self.now = self.now.plus(TOOK);
        let mut step = self.machine.after_round(judgement, TOOK, self.now, random, None);
        let listens = step == Step::Listen;
        if listens {
            assert!(matches!(judgement, Judgement::HeldByOther(_)) && self.machine.number() == 0);
            assert!(self.plan.wait != Wait::Once && self.plan.tries.is_none());
            step = self.machine.listens(ME, self.now);
        }
        let asks_again = !self.full && matches!(step, Step::Round { .. });
        if !asks_again && !fatal {
            self.outage_since = end.and(self.outage_since.or(Some(self.now)));
        }
        let refused_before = self.refused;
        self.refused =
            if asks_again { self.refused || *judgement == Judgement::HeldByOther(None) } else { end.is_none() };
        let used_up = self.plan.tries.is_some_and(|t| self.machine.attempts() >= t);
        assert!(self.machine.attempts() <= self.plan.tries.unwrap_or(u32::MAX).max(1));
        match step {
            Step::Round { full, entry } => {
                assert!(full && (listens || !self.full), "asked again without a pause, and not by the full script");
                assert_eq!(entry.is_some(), self.machine.number() == ME);
                assert!(
                    listens
                        || matches!(judgement, Judgement::HeldByOther(hint) if hint.is_none_or(may_be_free))
                        || *judgement == Judgement::Unclear
                );
                self.rounds += 1;
                self.rounds_since_sleep += 1;
                self.full = true;
                assert!(self.rounds_since_sleep <= 3);
                assert!(self.plan.wait != Wait::Once || self.rounds <= 2 + SPLITS_AT_ONCE);
                true
            }
            Step::Listen => panic!("it listens already"),
            Step::Park(wake) => {
                assert!(!fatal && !used_up && (self.plan.wait != Wait::Once || may_be_nobodys(judgement)));
                assert!(wake >= self.now && wake <= self.limit() && wake <= self.now.plus(ms(1_000)), "{judgement:?}");
                if end.is_some() {
                    assert!(!self.plan.fail_fast && wake < self.limit());
                    if self.plan.wait == FOREVER {
                        assert!(wake < self.outage_since.unwrap().plus(OUTAGE_PATIENCE));
                    }
                }
                self.wake(wake, end)
            }
            Step::Done(done) => {
                self.check_end(done, judgement, used_up, refused_before);
                false
            }
        }
    }

    fn wake(&mut self, wake: Mono, end: Option<End>) -> bool {
        // Woken late, the call ends by what it knows: an outage does not turn into contention.
        let late = self.machine.clone().resume(wake.plus(ms(100_000)));
        match self.plan.wait {
            Wait::Until(_) => assert_eq!(late, Step::Done(end.unwrap_or(End::Contended))),
            _ => assert!(matches!(late, Step::Round { full: true, .. })),
        }
        if wake > self.now {
            assert_eq!(self.machine.resume(wake.minus(Duration::from_nanos(1))), Step::Park(wake), "not before");
        }
        self.now = wake;
        match self.machine.resume(wake) {
            Step::Round { full, .. } => {
                assert!(full && wake < self.limit());
                self.rounds += 1;
                self.rounds_since_sleep = 1;
                self.full = true;
                true
            }
            step => {
                assert_eq!(step, Step::Done(End::Contended));
                assert!(end.is_none() && wake == self.limit());
                false
            }
        }
    }

    fn check_end(&self, done: End, judgement: &Judgement, used_up: bool, refused: bool) {
        let fatal = matches!(judgement, Judgement::Conflict(..) | Judgement::Mismatch(..));
        let cut_short = *judgement == Judgement::NoQuorum && self.now >= self.limit();
        let cut_short = refused && !fatal && (cut_short || self.plan.wait == Wait::Once);
        match error_of(judgement) {
            Some(_) if cut_short => assert_eq!(done, End::Contended),
            Some(end) => {
                assert_eq!(done, end);
                let at_least = if let Judgement::Quarantined(d) = judgement { *d } else { Duration::ZERO };
                // The shortest pause, or the quarantine, no longer fits.
                let next = self.now.plus(at_least.max(Backoff::DEFAULT.min));
                let too_late = match self.plan.wait {
                    Wait::Once => true,
                    Wait::Until(limit) => next >= limit,
                    Wait::Forever { .. } => self.outage_since.is_some_and(|since| next >= since.plus(OUTAGE_PATIENCE)),
                };
                let fatal = matches!(end, End::Conflict | End::Mismatch);
                assert!(fatal || used_up || self.plan.fail_fast || too_late, "{judgement:?}");
            }
            None if self.plan.wait == Wait::Once => assert_eq!(done, End::Contended),
            None if used_up => assert_eq!(done, End::TriesUsedUp),
            None => {
                assert_eq!(done, End::Contended);
                assert!(self.now >= self.limit(), "gave up on {judgement:?} before the limit");
            }
        }
    }
}

fn explore(call: &Call, depth: u32, random: u64, visited: &mut u64) {
    *visited += 1;
    if depth == 0 {
        return;
    }
    for judgement in judgements() {
        let mut next = call.clone();
        if next.step(&judgement, random) {
            explore(&next, depth - 1, random, visited);
        }
    }
}

fn waits() -> [Wait; 5] {
    [Wait::Once, Wait::Until(at(0)), Wait::Until(at(200)), Wait::Until(at(5_000)), FOREVER]
}

#[test]
fn every_five_judgements_in_a_row_are_answered_within_the_limits_of_the_call() {
    let mut visited = 0;
    for wait in waits() {
        explore(&Call::new(plan(wait)), 5, 1 << 63, &mut visited);
    }
    assert!(visited > 100_000, "{visited}");
}

#[test]
fn every_four_judgements_in_a_row_keep_to_tries_fail_fast_and_the_full_script_at_extreme_draws() {
    let mut visited = 0;
    for wait in waits() {
        for random in [0, u64::MAX] {
            for (tries, fail_fast, always_full) in [
                (None, false, false),
                (Some(0), false, false),
                (Some(2), false, true),
                (None, true, false),
                (Some(3), true, false),
            ] {
                let plan = Plan { tries, fail_fast, always_full, ..plan(wait) };
                explore(&Call::new(plan), 4, random, &mut visited);
            }
        }
    }
    assert!(visited > 10_000, "{visited}");
}

/// A call that has sent its first round, by the full script, and listens already if it may.
fn asked(plan: Plan) -> Acquire {
    let mut machine = Acquire::new(Plan { always_full: true, yields: true, ..plan });
    if machine.first(at(0)) == Step::Listen {
        machine.listens(ME, at(0));
    }
    machine
}

/// Tells `judgement` again and again; the end, if there is one, its time, and the number of rounds.
fn repeat(plan: Plan, judgement: &Judgement, rounds: u32, seed: u64) -> (Option<End>, Mono, u32) {
    let (mut machine, mut seeded) = (asked(plan), Seeded(seed));
    let (mut now, mut step) = (at(0), Step::Round { full: true, entry: None });
    let mut done = 0;
    loop {
        step = match step {
            Step::Round { .. } if done < rounds => {
                done += 1;
                now = now.plus(Duration::from_micros(200));
                machine.after_round(judgement, Duration::from_micros(200), now, seeded.next(), None)
            }
            Step::Listen => panic!("it listens already"),
            Step::Round { .. } => return (None, now, done),
            Step::Park(wake) => {
                now = wake;
                machine.resume(now)
            }
            Step::Done(end) => return (Some(end), now, done),
        };
    }
}

#[test]
fn contention_alone_never_ends_a_call_without_a_limit() {
    for judgement in &judgements()[..6] {
        assert_eq!(repeat(plan(FOREVER), judgement, 3_000, 1).0, None, "{judgement:?}");
    }
}

#[test]
fn an_outage_ends_a_call_without_a_limit_when_its_patience_is_over() {
    for judgement in [Judgement::NoQuorum, Judgement::TooSlow, Judgement::Quarantined(ms(500))] {
        let (end, when, rounds) = repeat(plan(FOREVER), &judgement, 10_000, 2);
        assert_eq!(end, error_of(&judgement));
        // Never later than the patience and one round, and not much sooner either.
        assert!(when < at(10_001) && when > at(9_400), "{judgement:?} {when:?}");
        assert!((10..200).contains(&rounds), "{judgement:?} {rounds}");
    }
}

#[test]
fn a_quarantine_that_outlasts_the_call_ends_it_at_once_and_a_shorter_one_is_waited_for() {
    for wait in [FOREVER, Wait::Until(at(10_000)), Wait::Once] {
        assert_eq!(repeat(plan(wait), &Judgement::Quarantined(ms(60_000)), 9, 3).2, 1);
    }
    // It may be lifted meanwhile, so it is asked about every second.
    let long = asked(plan(FOREVER)).after_round(&Judgement::Quarantined(ms(5_000)), TOOK, at(0), 0, None);
    assert_eq!(long, Step::Park(at(1_000)));
    // However the pause is drawn: a quarantine of 500 ms ends within a limit of 600 ms.
    for random in [0, 1 << 63, u64::MAX] {
        let mut machine = asked(plan(Wait::Until(at(600))));
        let step = machine.after_round(&Judgement::Quarantined(ms(500)), TOOK, at(10), random, None);
        assert!(matches!(step, Step::Park(wake) if wake >= at(510) && wake < at(600)), "{step:?}");
    }
}

#[test]
fn an_outage_is_endured_up_to_the_limit_of_the_caller() {
    for seed in 0..50 {
        for limit in [100, 200, 1_000, 3_000] {
            let (end, when, rounds) = repeat(plan(Wait::Until(at(limit))), &Judgement::NoQuorum, 10_000, seed);
            assert_eq!(end, Some(End::NoQuorum));
            assert!(when < at(limit) && when.plus(ms(50)) >= at(limit), "{limit} {when:?}");
            assert!(rounds >= 2 && rounds <= 2 + limit as u32 / 50, "{limit}: {rounds}");
        }
    }
}

#[test]
fn an_outage_ends_a_call_at_once_when_no_pause_ends_before_its_limit() {
    // The shortest pause, with the lowest draw.
    let after = |limit| asked(plan(Wait::Until(limit))).after_round(&Judgement::NoQuorum, TOOK, at(0), 0, None);
    assert_eq!(after(at(50)), Step::Done(End::NoQuorum), "it would end with the call");
    assert_eq!(after(at(51)), Step::Park(at(50)));
}

#[test]
fn contention_between_two_outages_starts_the_patience_anew() {
    let mut machine = asked(plan(FOREVER));
    let mut tell = |judgement: &Judgement, now| machine.after_round(judgement, TOOK, now, 0, None);
    assert!(matches!(tell(&Judgement::NoQuorum, at(0)), Step::Park(_)));
    assert!(matches!(tell(&Judgement::HeldByOther(None), at(9_000)), Step::Park(_)));
    assert!(matches!(tell(&Judgement::NoQuorum, at(11_000)), Step::Park(_)));
    assert!(matches!(tell(&Judgement::TooSlow, at(20_900)), Step::Park(_)));
    assert_eq!(tell(&Judgement::NoQuorum, at(21_000)), Step::Done(End::NoQuorum));
}

#[test]
fn a_call_that_wakes_late_from_an_outage_does_not_report_contention() {
    let mut machine = asked(plan(Wait::Until(at(1_000))));
    assert!(matches!(machine.after_round(&Judgement::NoQuorum, TOOK, at(3), 0, None), Step::Park(_)));
    assert_eq!(machine.resume(at(1_000)), Step::Done(End::NoQuorum));
    assert!(matches!(machine.after_round(&Judgement::HeldByOther(None), TOOK, at(9), 0, None), Step::Park(_)));
    assert_eq!(machine.resume(at(1_000)), Step::Done(End::Contended));
}

#[test]
fn a_last_round_that_the_limit_cut_short_does_not_turn_contention_into_an_outage() {
    let wait = Wait::Until(at(100));
    let told = |judgements: &[(Judgement, bool, u64)]| {
        let full = judgements[0].1;
        let mut machine = if full { asked(plan(wait)) } else { Acquire::new(plan(wait)) };
        let tell = |(j, _, now): &(Judgement, bool, u64)| match machine.after_round(j, TOOK, at(*now), 0, None) {
            Step::Listen => machine.listens(ME, at(*now)),
            step => step,
        };
        judgements.iter().map(tell).last().unwrap()
    };
    let held = |full, now| (Judgement::HeldByOther(None), full, now);
    let none = |now| (Judgement::NoQuorum, true, now);
    assert_eq!(told(&[held(true, 3), none(100)]), Step::Done(End::Contended));
    assert_eq!(told(&[held(false, 99), none(100)]), Step::Done(End::Contended));
    // Without a sign of another holder, or after an outage that was seen before, it is one.
    assert_eq!(told(&[none(100)]), Step::Done(End::NoQuorum));
    assert_eq!(told(&[held(true, 3), none(40), none(100)]), Step::Done(End::NoQuorum));
    assert_eq!(told(&[held(true, 3), (Judgement::TooSlow, true, 100)]), Step::Done(End::TooSlow));
    // Nor is an unclear refusal asked about again when there is no time left for the answer.
    assert_eq!(told(&[(Judgement::Unclear, false, 100)]), Step::Done(End::Contended));
}

#[test]
fn a_split_that_does_not_end_is_asked_about_ever_more_slowly() {
    // Otherwise a lock whose holder is met on a minority only would be asked for some thousand times a second.
    let (_, when, rounds) = repeat(plan(FOREVER), &Judgement::Split, 200, 4);
    assert!(when > at(60_000), "{rounds} rounds in {:?}", when.since(at(0)));
    // The first ones are quick: they are races.
    let (_, when, _) = repeat(plan(FOREVER), &Judgement::Split, 4, 4);
    assert!(when < at(10), "{:?}", when.since(at(0)));
}

#[test]
fn another_judgement_ends_a_row_of_splits() {
    let mut machine = asked(plan(FOREVER));
    let mut pause = |judgement: &Judgement| match machine.after_round(judgement, ms(1), at(0), u64::MAX, None) {
        Step::Park(wake) => wake.since(at(0)),
        step => panic!("{step:?}"),
    };
    let row: Vec<Duration> = (0..4).map(|_| pause(&Judgement::Split)).collect();
    assert!(row.windows(2).all(|w| w[1] > w[0]), "{row:?}");
    pause(&Judgement::HeldByOther(None));
    assert_eq!(pause(&Judgement::Split), row[0]);
}

#[test]
fn one_slow_round_does_not_stretch_the_pauses_beyond_the_cap() {
    let mut machine = asked(plan(FOREVER));
    let slow = Duration::from_secs(3);
    assert!(matches!(machine.after_round(&Judgement::NoQuorum, slow, at(0), 0, None), Step::Park(_)));
    let step = machine.after_round(&Judgement::Split, TOOK, at(5_000), u64::MAX, None);
    assert!(matches!(step, Step::Park(wake) if wake <= at(6_000)), "{step:?}");
}

#[test]
fn a_refusal_by_plain_commands_is_asked_about_again_only_by_those_who_go_on_waiting() {
    let refused = |wait, now| Acquire::new(plan(wait)).after_round(&Judgement::HeldByOther(None), TOOK, now, 0, None);
    assert_eq!(refused(FOREVER, at(3)), Step::Listen);
    assert_eq!(refused(Wait::Until(at(4)), at(3)), Step::Listen);
    assert_eq!(refused(Wait::Until(at(3)), at(3)), Step::Done(End::Contended));
    assert_eq!(refused(Wait::Once, at(3)), Step::Done(End::Contended));
    // A call that counts its tries does not listen.
    let counts = Plan { tries: Some(2), ..plan(FOREVER) };
    let step = Acquire::new(counts).after_round(&Judgement::HeldByOther(None), TOOK, at(3), 0, None);
    assert_eq!(step, Step::Round { full: true, entry: None });
    // An answer with the ttl has said all.
    let step = Acquire::new(counts).after_round(&Judgement::HeldByOther(Some(ms(9))), TOOK, at(3), 0, None);
    assert!(matches!(step, Step::Park(_)), "{step:?}");
}

#[test]
fn who_does_not_wait_asks_again_while_the_votes_are_split_but_not_for_long() {
    for judgement in judgements() {
        let mut machine = asked(plan(Wait::Once));
        let mut now = at(0);
        let mut asked = 0;
        let end = loop {
            match machine.after_round(&judgement, TOOK, now, u64::MAX, None) {
                Step::Park(wake) => now = wake,
                Step::Done(end) => break end,
                step => panic!("{judgement:?} {step:?}"),
            }
            asked += 1;
            assert_eq!(machine.resume(now), Step::Round { full: true, entry: None });
        };
        let expected = if may_be_nobodys(&judgement) { SPLITS_AT_ONCE } else { 0 };
        assert_eq!((asked, end), (expected, error_of(&judgement).unwrap_or(End::Contended)), "{judgement:?}");
        // Pauses of three rounds at most, then six, and the third, of twelve, is cut.
        assert!(now <= at(0).plus(TOOK * 9 + PAUSE_AT_ONCE), "{judgement:?}");
    }
}

#[test]
fn what_may_be_free_soon_is_asked_for_soon_but_less_and_less_so() {
    let mut machine = asked(plan(FOREVER));
    let mut pause = |judgement| match machine.after_round(&judgement, TOOK, at(0), u64::MAX, None) {
        Step::Park(until) => until.since(at(0)),
        step => panic!("{step:?}"),
    };
    let soon = || Judgement::HeldByOther(Some(MAY_BE_FREE_WITHIN));
    let grown: Vec<Duration> = (0..4).map(|_| pause(soon())).collect();
    assert!(grown[0] > MAY_BE_FREE_WITHIN && grown[0] <= MAY_BE_FREE_WITHIN + ms(10), "{grown:?}");
    assert!(grown.windows(2).all(|w| w[1] >= w[0] + MAY_BE_FREE_WITHIN), "{grown:?}");
    pause(Judgement::HeldByOther(Some(ms(60_000))));
    assert_eq!(pause(soon()), grown[0], "from the beginning, after others were seen to hold it");
}

#[test]
fn a_pause_of_the_user_replaces_the_drawn_one_within_the_limit() {
    let after = |wait, custom| {
        asked(plan(wait)).after_round(&Judgement::HeldByOther(None), TOOK, at(0), u64::MAX, Some(custom))
    };
    assert_eq!(after(FOREVER, ms(7)), Step::Park(at(7)));
    assert_eq!(after(Wait::Until(at(5)), ms(7)), Step::Park(at(5)));
    assert_eq!(after(FOREVER, Duration::MAX), Step::Park(Mono::NEVER));
    for too_short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        assert_eq!(after(FOREVER, too_short), Step::Park(at(1)), "a waiter never asks without a pause");
    }
}

#[test]
fn the_first_pause_is_drawn_from_the_first_range_on_contention_and_in_an_outage() {
    for judgement in [Judgement::HeldByOther(None), Judgement::NoQuorum] {
        let mut machine = asked(plan(FOREVER));
        assert_eq!(machine.pauses(), 0);
        let step = machine.after_round(&judgement, TOOK, at(0), u64::MAX, None);
        assert!(matches!(step, Step::Park(wake) if wake <= at(250)), "{judgement:?} {step:?}");
        assert_eq!((machine.pauses(), machine.attempts()), (1, 1));
    }
}

#[test]
fn pauses_that_a_notification_cut_short_do_not_grow() {
    let mut machine = asked(plan(FOREVER));
    for n in 0..50 {
        let step = machine.after_round(&Judgement::HeldByOther(None), TOOK, at(n), u64::MAX, None);
        assert!(matches!(step, Step::Park(wake) if wake <= at(n + 250)), "{step:?}");
        machine.heard(Heard { notified: 3, subscribed: false }, at(n + 1));
        assert!(matches!(machine.resume(at(n + 1)), Step::Round { .. }));
        assert_eq!(machine.pauses(), 0);
    }
    // Pauses of the caller's own are counted as they are asked for.
    let mut machine = asked(Plan { custom_pauses: true, ..plan(FOREVER) });
    machine.after_round(&Judgement::HeldByOther(None), TOOK, at(0), 0, Some(ms(50)));
    machine.heard(Heard { notified: 3, subscribed: false }, at(1));
    machine.resume(at(1));
    assert_eq!(machine.pauses(), 1);
}

#[test]
fn the_end_of_an_outage_ends_its_pause_and_no_other() {
    let mut machine = asked(plan(FOREVER));
    let Step::Park(poll) = machine.after_round(&Judgement::NoQuorum, TOOK, at(0), 0, None) else { panic!() };
    machine.heard(Heard { notified: 7, subscribed: true }, at(1));
    assert_eq!(machine.resume(at(1)), Step::Park(poll), "a notification says nothing of the masters that are away");
    machine.recovered();
    assert!(matches!(machine.resume(at(1)), Step::Round { .. }));
    let Step::Park(poll) = machine.after_round(&Judgement::NoQuorum, TOOK, at(2), 0, None) else { panic!() };
    assert_eq!(machine.resume(at(2)), Step::Park(poll), "it recovered before this attempt");
    assert!(machine.is_outage());
    let mut machine = asked(plan(FOREVER));
    let Step::Park(poll) = machine.after_round(&Judgement::HeldByOther(None), TOOK, at(0), 0, None) else { panic!() };
    machine.recovered();
    assert_eq!(machine.resume(at(1)), Step::Park(poll), "others hold the lock");
}
