use super::super::lease::{DEFERRAL, Extended, Extension, Lease, LeaseState, LossReason, Terms, Todo};
use super::super::validity::{self, Drift};
use super::super::{Mono, retry};
use super::{at, ms};
use std::time::Duration;

const TTL: Duration = ms(3_000);

fn terms(renew: bool, max_hold: Option<Duration>) -> Terms {
    Terms { ttl: TTL, drift: Drift::DEFAULT, renew, max_hold }
}

fn watched() -> Lease {
    Lease::new(terms(true, None), at(0))
}

fn over(state: LeaseState) -> bool {
    matches!(state, LeaseState::Lost(_) | LeaseState::Released)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Pass(Duration),
    Poll,
    Begin(Duration),
    /// The quorum of the oldest or the newest extension that is still open.
    Extended {
        oldest: bool,
    },
    Failed(u64),
    Lose,
    Release,
}

const EVENTS: [Event; 12] = [
    Event::Pass(ms(400)),
    Event::Pass(ms(1_700)),
    Event::Pass(ms(2_945)),
    Event::Poll,
    Event::Begin(ms(1_200)),
    Event::Begin(TTL),
    Event::Begin(ms(6_000)),
    Event::Extended { oldest: true },
    Event::Extended { oldest: false },
    Event::Failed(u64::MAX),
    Event::Lose,
    Event::Release,
];

/// A lease beside what the masters may have done with its keys.
#[derive(Clone)]
struct World {
    terms: Terms,
    lease: Lease,
    now: Mono,
    /// What the counted rounds justify: no script shortens a key's life, so the furthest of them.
    justified: Mono,
    /// The extensions whose end was not yet reported.
    open: Vec<Extension>,
    announced: bool,
    last_state: LeaseState,
}

impl World {
    fn new(terms: Terms) -> World {
        let lease = Lease::new(terms, at(0));
        let mut world = World {
            terms,
            lease,
            now: at(0),
            justified: Mono::ZERO,
            open: Vec::new(),
            announced: false,
            last_state: LeaseState::Held,
        };
        world.last_state = world.lease.state(at(0));
        world.justified = world.end_of(at(0), terms.ttl);
        world
    }

    fn end_of(&self, start: Mono, ttl: Duration) -> Mono {
        let until = validity::until(start, ttl, self.terms.drift);
        until.min(self.terms.max_hold.map_or(Mono::NEVER, |d| at(0).plus(d)))
    }

    /// Does `event`, if it can happen here, and checks everything; false if the event cannot happen.
    fn step(&mut self, event: Event) -> bool {
        let before = self.lease.clone();
        let alive = !over(before.state(self.now));
        assert_eq!(alive, !over(self.last_state));
        let mut may_rise = false;
        match event {
            Event::Pass(d) => self.now = self.now.plus(d),
            Event::Poll => self.poll(alive),
            Event::Begin(ttl) => {
                let begun = self.lease.begin_extension(self.now, ttl);
                assert_eq!(begun.is_some(), alive && !self.announced);
                if let Some(extension) = begun {
                    assert_eq!((extension.until(), extension.ttl), (self.end_of(self.now, ttl), ttl));
                    self.open.push(extension);
                }
            }
            Event::Extended { oldest } => {
                if self.open.is_empty() || (!oldest && self.open.len() == 1) {
                    return false;
                }
                let extension = if oldest { self.open.remove(0) } else { self.open.pop().unwrap() };
                may_rise = self.lease.extended(extension, self.now);
                assert_eq!(may_rise, alive && !self.announced, "counted exactly while the lease lives");
                if may_rise {
                    self.justified = self.justified.max(extension.until());
                    assert_eq!(self.lease.state(self.now), LeaseState::Held);
                }
            }
            Event::Failed(random) => {
                self.lease.extension_failed(self.now, random);
                if alive {
                    assert_eq!(self.lease.state(self.now), LeaseState::Jeopardy);
                }
            }
            Event::Lose => {
                self.lease.lose(LossReason::Taken);
                assert!(over(self.lease.state(self.now)));
                assert!(!self.lease.lose(LossReason::Forked), "it is lost but once");
            }
            Event::Release => assert_eq!(self.lease.release(self.now), before.state(self.now)),
        }
        self.check(&before, may_rise, event);
        true
    }

    fn poll(&mut self, alive: bool) {
        let until = self.lease.until();
        match self.lease.poll(self.now) {
            Todo::Renew => assert!(alive && !self.announced && self.terms.renew && self.now < until),
            Todo::Announce(reason) => {
                assert!(!self.announced && self.now >= until.minus(self.lease.notice()));
                let capped = self.terms.max_hold.is_some_and(|d| until == at(0).plus(d));
                assert_eq!(reason, if capped { LossReason::MaxHold } else { LossReason::Expired });
                self.announced = true;
            }
            Todo::Wait(t) => assert!(alive && !self.announced && t > self.now && t < until),
            Todo::Nothing => assert!(!alive || self.announced),
        }
    }

    fn check(&mut self, before: &Lease, may_rise: bool, event: Event) {
        let state = self.lease.state(self.now);
        match self.last_state {
            // Only the reason may become more exact.
            LeaseState::Lost(_) => assert!(matches!(state, LeaseState::Lost(_)), "{event:?}"),
            LeaseState::Released => assert_eq!(state, LeaseState::Released, "{event:?}"),
            _ => {}
        }
        self.last_state = state;
        if !over(state) {
            assert_eq!(self.lease.until(), self.justified, "{event:?}");
            assert!(self.now < self.lease.until());
        }
        assert!(may_rise || self.lease.until() <= before.until(), "{event:?}");
        assert_eq!(self.lease.may_write(self.now), !over(state) && !self.announced, "{event:?}");
        let cap = self.terms.max_hold.map_or(Mono::NEVER, |d| at(0).plus(d));
        assert!(self.lease.until() <= cap);
    }
}

fn explore(world: &World, depth: u32, visited: &mut u64) {
    *visited += 1;
    // After the end, two more events of each kind are enough to see that nothing brings it back.
    let depth = if over(world.last_state) { depth.min(2) } else { depth };
    if depth == 0 {
        return;
    }
    for event in EVENTS {
        let mut next = world.clone();
        if next.step(event) {
            explore(&next, depth - 1, visited);
        }
    }
}

#[test]
fn every_sequence_of_six_events_keeps_the_deadline_within_what_the_masters_granted() {
    let mut visited = 0;
    explore(&World::new(terms(true, None)), 6, &mut visited);
    assert!(visited > 500_000, "{visited}");
}

#[test]
fn every_sequence_of_five_events_obeys_the_longest_hold_and_the_fixed_lease() {
    for (renew, max_hold) in [(true, Some(4_000)), (true, Some(2_000)), (false, None), (false, Some(0))] {
        let mut visited = 0;
        explore(&World::new(terms(renew, max_hold.map(ms))), 5, &mut visited);
        assert!(visited > 100, "{visited}");
    }
}

#[test]
fn an_extension_never_shortens_a_lease_in_whatever_order_the_answers_come() {
    for [first, second] in [[6_000, 1_000], [1_000, 6_000]] {
        for swapped in [false, true] {
            let mut lease = watched();
            let mut both = [first, second].map(|ttl| lease.begin_extension(at(100), ms(ttl)).unwrap());
            assert_eq!(lease.until(), at(2_968), "an extension under way changes nothing");
            let furthest = both[0].until().max(both[1].until());
            if swapped {
                both.reverse();
            }
            for extension in both {
                let before = lease.until();
                assert!(lease.extended(extension, at(300)));
                assert_eq!(lease.until(), before.max(extension.until()));
            }
            assert_eq!((lease.until(), lease.ttl()), (furthest, TTL), "renewals keep their ttl");
        }
    }
}

#[test]
fn an_answer_to_an_older_extension_does_not_put_the_next_renewal_forward() {
    let mut lease = watched();
    let older = lease.begin_extension(at(100), TTL).unwrap();
    let newer = lease.begin_extension(at(900), TTL).unwrap();
    assert!(lease.extended(newer, at(950)));
    assert!(lease.extended(older, at(960)));
    assert_eq!(lease.poll(at(961)), Todo::Wait(at(1_900)));
}

#[test]
fn an_extension_counts_before_the_old_deadline_and_not_at_it() {
    for (end, counts) in [(2_967, true), (2_968, false), (2_969, false), (10_000, false)] {
        let mut lease = watched();
        assert_eq!(lease.until(), at(2_968));
        let extension = lease.begin_extension(at(2_000), TTL).unwrap();
        assert_eq!(lease.extended(extension, at(end)), counts, "{end}");
        assert_eq!(over(lease.state(at(end))), !counts, "{end}");
    }
}

#[test]
fn nobody_renews_after_the_end_was_announced() {
    let mut lease = watched();
    let under_way = lease.begin_extension(at(2_900), TTL).unwrap();
    assert_eq!(lease.poll(at(2_940)), Todo::Announce(LossReason::Expired));
    assert!(!lease.may_write(at(2_941)));
    assert_eq!(lease.begin_extension(at(2_941), TTL), None);
    assert!(!lease.extended(under_way, at(2_942)));
    assert_eq!((lease.until(), lease.state(at(2_942))), (at(2_968), LeaseState::Held));
    assert_eq!(lease.poll(at(9_000)), Todo::Nothing);
}

/// Follows `poll` to the letter until the end is announced; every renewal fails after `took`. The moments of the
/// renewals, and of the announcement.
fn follow(lease: &mut Lease, from: Mono, took: Duration, random: u64) -> (Vec<Mono>, Mono) {
    let (mut now, mut renewals) = (from, Vec::new());
    for _ in 0..10_000 {
        match lease.poll(now) {
            Todo::Wait(t) => {
                assert!(t > now);
                now = t;
            }
            Todo::Renew => {
                renewals.push(now);
                lease.begin_extension(now, lease.ttl()).unwrap();
                now = now.plus(took);
                lease.extension_failed(now, random);
            }
            Todo::Announce(_) => return (renewals, now),
            Todo::Nothing => panic!("the end was never announced"),
        }
    }
    panic!("no end after 10 000 steps");
}

#[test]
fn the_end_is_announced_before_it_comes_for_every_ttl_and_drift() {
    for ttl in [20, 30, 50, 80, 100, 150, 500, 3_000, 30_000, 60_000].map(ms) {
        for drift in [0, 10_000, 100_000, 333_333, 500_000].map(|p| Drift::from_ppm(p).unwrap()) {
            for renew in [false, true] {
                for random in [0, u64::MAX] {
                    let mut lease = Lease::new(Terms { ttl, drift, renew, max_hold: None }, at(0));
                    let (until, notice) = (lease.until(), lease.notice());
                    let (renewals, announced) = follow(&mut lease, at(0), Duration::ZERO, random);
                    assert_eq!(announced, until.minus(notice), "{ttl:?} {drift:?}");
                    assert!(announced < until && announced > at(0), "{ttl:?} {drift:?}");
                    // A watchdog that never renews would lose every lease.
                    assert_eq!(renew, !renewals.is_empty(), "{ttl:?} {drift:?}");
                }
            }
        }
    }
}

#[test]
fn the_notice_is_a_hundredth_of_the_ttl_and_at_least_20_ms_where_the_lease_is_long_enough() {
    for (ttl, notice) in [(60_000, 600), (30_000, 300), (3_000, 30), (2_000, 20), (500, 20), (100, 20)] {
        let lease = Lease::new(Terms { ttl: ms(ttl), ..terms(true, None) }, at(0));
        assert_eq!(lease.notice(), ms(notice), "{ttl}");
    }
}

#[test]
fn the_first_renewal_is_due_after_a_third_of_the_ttl() {
    let mut lease = watched();
    assert_eq!(lease.poll(at(0)), Todo::Wait(at(1_000)));
    assert_eq!(lease.poll(at(1_000)), Todo::Renew);
    // While its round is under way, only the deadline is due.
    assert_eq!(lease.poll(at(1_001)), Todo::Wait(at(2_938)));
    let extension = lease.begin_extension(at(1_000), TTL).unwrap();
    assert!(lease.extended(extension, at(1_100)));
    assert_eq!(lease.poll(at(1_100)), Todo::Wait(at(2_000)));
}

#[test]
fn failed_renewals_are_tried_again_up_to_the_announcement() {
    for ttl in [100, 500, 3_000, 30_000].map(ms) {
        for random in [0, 1 << 63, u64::MAX] {
            let mut lease = Lease::new(Terms { ttl, ..terms(true, None) }, at(0));
            let (renewals, announced) = follow(&mut lease, at(0), ttl / 50, random);
            assert!(renewals.len() >= 3 && renewals.len() < 100, "{ttl:?}: {} renewals", renewals.len());
            // The last try is not left out because the pause before it was drawn too long.
            assert!(announced.since(*renewals.last().unwrap()) <= ttl / 20, "{ttl:?} {random}");
        }
    }
}

#[test]
fn a_renewal_is_tried_again_within_the_time_that_is_left_even_if_the_drawn_pause_is_longer() {
    let mut lease = Lease::new(Terms { ttl: ms(60_000), ..terms(true, None) }, at(0));
    for _ in 0..5 {
        lease.extension_failed(at(10), 0);
    }
    assert!(retry::after_failed_renewal(ms(60_000), 5, u64::MAX) > ms(5_000), "the drawn pause is too long");
    lease.extension_failed(at(58_000), u64::MAX);
    let Todo::Wait(next) = lease.poll(at(58_001)) else { panic!() };
    assert!(next < lease.until().minus(lease.notice()));
    assert_eq!(lease.poll(next), Todo::Renew);
}

#[test]
fn the_longest_hold_ends_a_lease_and_stops_its_renewal() {
    let mut lease = Lease::new(terms(true, Some(ms(4_000))), at(0));
    assert_eq!(lease.poll(at(1_000)), Todo::Renew);
    let extension = lease.begin_extension(at(1_000), TTL).unwrap();
    assert!(lease.extended(extension, at(1_001)));
    let last = lease.begin_extension(at(2_000), TTL).unwrap();
    assert!(lease.extended(last, at(2_001)));
    assert_eq!(lease.until(), at(4_000));
    // Another renewal could not move the deadline: it would only keep the key longer than the lock may be held.
    assert_eq!(lease.poll(at(3_000)), Todo::Wait(at(3_970)));
    assert_eq!(lease.poll(at(3_970)), Todo::Announce(LossReason::MaxHold));
    assert_eq!(lease.state(at(4_000)), LeaseState::Lost(LossReason::MaxHold));
}

#[test]
fn a_loss_tells_its_reason_and_a_release_what_it_found() {
    for reason in [LossReason::Taken, LossReason::KeyAbsent, LossReason::Forked, LossReason::WatchdogPanic] {
        let mut lease = watched();
        assert!(lease.lose(reason));
        assert_eq!((lease.state(at(0)), lease.until()), (LeaseState::Lost(reason), Mono::ZERO));
        assert_eq!(lease.release(at(1)), LeaseState::Lost(reason));
        assert_eq!(lease.release(at(2)), LeaseState::Lost(reason));
        assert!(!reason.to_string().is_empty());
    }
    let mut lease = watched();
    assert_eq!(lease.release(at(1)), LeaseState::Held);
    assert_eq!(lease.release(at(2)), LeaseState::Released);
    assert_eq!((lease.until(), lease.state(at(9_000))), (Mono::ZERO, LeaseState::Released));
    let mut lease = watched();
    assert_eq!(lease.release(at(2_968)), LeaseState::Lost(LossReason::Expired));
}

#[test]
fn an_extension_that_was_asked_for_with_the_margin_lasts_as_long_as_was_wanted() {
    for ttl in [100, 500, 3_000, 60_000].map(ms) {
        for drift in [0, 10_000, 333_333, 500_000].map(|p| Drift::from_ppm(p).unwrap()) {
            for wanted in [100, 101, 2_999, 3_000, 30_000, 60_000].map(ms) {
                for (begin, end) in [(0, 0), (1, 40), (20, 45)] {
                    let mut lease = Lease::new(Terms { ttl, drift, renew: true, max_hold: None }, at(0));
                    let extension = lease.begin_extension(at(begin), validity::ttl_for(wanted, drift));
                    if lease.extended(extension.unwrap(), at(end)) {
                        assert!(lease.until() >= at(begin).plus(wanted), "{ttl:?} {drift:?} {wanted:?}");
                    } else {
                        assert!(at(end) >= lease.until(), "{ttl:?} {drift:?} {wanted:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_extension_that_ends_after_a_release_is_over_whatever_the_masters_said() {
    for reached in [false, true] {
        for against in [None, Some(LossReason::Taken), Some(LossReason::KeyAbsent)] {
            for end in [1_100, 2_950, 9_000] {
                let mut lease = watched();
                let extension = lease.begin_extension(at(1_000), TTL).unwrap();
                assert_eq!(lease.release(at(1_050)), LeaseState::Held);
                let came = lease.conclude(extension, reached, against, at(end), || panic!("no pause is drawn"));
                assert_eq!(
                    (came, lease.state(at(end))),
                    (Extended::Over, LeaseState::Released),
                    "{reached} {against:?} {end}"
                );
                assert!(!lease.lose(LossReason::Taken), "what was given back cannot be lost");
            }
        }
    }
}

#[test]
fn jeopardy_ends_with_the_next_good_renewal() {
    let mut lease = watched();
    lease.extension_failed(at(1_000), 0);
    assert_eq!(lease.state(at(1_000)), LeaseState::Jeopardy);
    assert!(lease.may_write(at(1_001)));
    let extension = lease.begin_extension(at(1_100), TTL).unwrap();
    assert!(lease.extended(extension, at(1_200)));
    assert_eq!(lease.state(at(1_200)), LeaseState::Held);
}

#[test]
fn what_is_due_next_is_what_poll_waits_for_until_the_lease_is_over() {
    let mut lease = watched();
    assert_eq!(lease.granted(), at(0));
    for step in 0..20 {
        let Todo::Wait(t) = lease.poll(at(step)) else { panic!("{step}") };
        assert_eq!(lease.next_due(), Some(t));
    }
    assert_eq!(lease.poll(at(1_000)), Todo::Renew);
    assert_eq!(lease.next_due(), Some(lease.until().minus(lease.notice())));
    let (mut lost, mut released) = (lease.clone(), lease.clone());
    assert!(matches!(lease.poll(at(2_950)), Todo::Announce(_)));
    lost.lose(LossReason::Taken);
    released.release(at(1_000));
    assert_eq!((lease.next_due(), lost.next_due(), released.next_due()), (None, None, None));
    assert_eq!((lease.is_released(), lost.is_released(), released.is_released()), (false, false, true));
}

#[test]
fn the_pause_grows_with_each_failure_in_a_row_and_is_small_again_after_a_success() {
    let ttl = ms(60_000);
    let mut lease = Lease::new(Terms { ttl, ..terms(true, None) }, at(0));
    let fails = |lease: &mut Lease, now: u64, failures: u32| {
        lease.extension_failed(at(now), u64::MAX);
        assert_eq!(lease.next_due(), Some(at(now).plus(retry::after_failed_renewal(ttl, failures, u64::MAX))), "{now}");
    };
    (0..3).for_each(|n| fails(&mut lease, 1_000 + 100 * n, n as u32));
    let extension = lease.begin_extension(at(2_000), ttl).unwrap();
    assert!(lease.extended(extension, at(2_001)));
    fails(&mut lease, 3_000, 0);
}

#[test]
fn terms_at_the_limits_do_not_panic() {
    for ttl in [Duration::ZERO, Duration::from_nanos(1), ms(2), Duration::MAX] {
        for max_hold in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
            let mut lease =
                Lease::new(Terms { ttl, drift: Drift::DEFAULT, renew: true, max_hold }, Mono::from_nanos(5));
            lease.extension_failed(Mono::from_nanos(6), u64::MAX);
            let extension = lease.begin_extension(Mono::from_nanos(6), Duration::MAX);
            assert_eq!(extension.is_some(), ttl == Duration::MAX && max_hold != Some(Duration::ZERO));
            assert!(over(lease.state(Mono::NEVER)));
            assert!(!matches!(lease.poll(Mono::NEVER), Todo::Wait(_) | Todo::Renew));
        }
    }
}

#[test]
fn a_renewal_that_could_not_begin_is_due_again_soon() {
    let mut lease = watched();
    let Todo::Wait(due) = lease.poll(at(0)) else { panic!("nothing is due yet") };
    assert_eq!(lease.poll(due), Todo::Renew);
    assert!(matches!(lease.poll(due), Todo::Wait(at) if at > due.plus(ms(1_000))), "only the end is due");
    lease.defer_renewal(due);
    assert_eq!(lease.poll(due), Todo::Wait(due.plus(DEFERRAL)));
    assert_eq!(lease.poll(due.plus(DEFERRAL)), Todo::Renew);
    // An extension that has planned the next one meanwhile is not disturbed.
    let extension = lease.begin_extension(due, TTL).unwrap();
    assert!(lease.extended(extension, due.plus(ms(1))));
    let planned = lease.poll(due.plus(ms(1)));
    lease.defer_renewal(due.plus(ms(1)));
    assert_eq!(lease.poll(due.plus(ms(1))), planned);
    // Nothing of a lease without a watchdog, or of one that is over, is ever renewed.
    let mut fixed = Lease::new(terms(false, None), at(0));
    fixed.defer_renewal(at(1));
    assert!(matches!(fixed.poll(at(20)), Todo::Wait(at_end) if at_end > at(2_000)));
    lease.lose(LossReason::Taken);
    lease.defer_renewal(at(1_500));
    assert_eq!(lease.poll(at(3_000)), Todo::Nothing);
}
