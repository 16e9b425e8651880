use super::super::fence::{LIMIT, Rank, STEP, rank};
use super::super::{Mono, Quorum};
use super::{Seeded, quorums};

/// The rule by definition: the `r`-th largest, found by counting instead of sorting.
fn token_by_definition(quorum: Quorum, counters: &[Option<u64>]) -> Option<u64> {
    let v = counters.iter().flatten().count();
    let r = (quorum.votes() + v).checked_sub(quorum.masters() + quorum.margin())?;
    let at_least = |t: u64| counters.iter().flatten().filter(|c| **c >= t).count();
    counters.iter().flatten().copied().filter(|t| at_least(*t) >= r).max()
}

/// Every answer of `n` masters out of none and the counters `1..=top`.
fn answers(n: usize, top: u64) -> impl Iterator<Item = Vec<Option<u64>>> {
    let base = top + 1;
    (0..base.pow(n as u32)).map(move |code| {
        let digit = |i: u32| code / base.pow(i) % base;
        (0..n as u32).map(|i| (digit(i) > 0).then(|| digit(i))).collect()
    })
}

#[test]
fn the_token_is_the_rth_largest_and_is_written_back_where_a_quorum_does_not_hold_it() {
    for quorum in quorums(5) {
        for counters in answers(quorum.masters(), 4) {
            let v = counters.iter().flatten().count();
            let have = rank(quorum, &counters);
            if v < quorum.votes() {
                assert_eq!(have, Rank::NotEnough, "{quorum:?} {counters:?}");
                continue;
            }
            let want = token_by_definition(quorum, &counters).unwrap();
            let holds = |i: usize| counters[i].is_some_and(|c| c >= want);
            let holders = (0..quorum.masters()).filter(|i| holds(*i)).count();
            match have {
                Rank::NotEnough => panic!("{quorum:?} {counters:?}"),
                Rank::Done(token) => {
                    assert_eq!(token, want, "{quorum:?} {counters:?}");
                    assert!(holders >= quorum.votes(), "{quorum:?} {counters:?}");
                }
                Rank::WriteBack(token, mask) => {
                    assert_eq!(token, want, "{quorum:?} {counters:?}");
                    assert!(holders < quorum.votes(), "{quorum:?} {counters:?}");
                    let asked: Vec<bool> = (0..quorum.masters()).map(|i| mask & 1 << i != 0).collect();
                    assert!((0..quorum.masters()).all(|i| asked[i] != holds(i)), "{quorum:?} {counters:?} {mask:b}");
                    assert_eq!(mask & !quorum.all(), 0);
                }
            }
        }
    }
}

#[test]
fn when_all_masters_answer_without_a_margin_one_round_is_enough() {
    for quorum in quorums(5).filter(|q| q.margin() == 0) {
        for counters in answers(quorum.masters(), 4).filter(|c| c.iter().all(Option::is_some)) {
            assert!(matches!(rank(quorum, &counters), Rank::Done(_)), "{quorum:?} {counters:?}");
        }
    }
}

#[test]
fn equal_counters_are_a_token_at_once() {
    for quorum in quorums(32) {
        let mut counters = vec![None; quorum.masters()];
        for i in 0..quorum.masters() {
            assert_eq!(rank(quorum, &counters), if i < quorum.votes() { Rank::NotEnough } else { Rank::Done(9) });
            counters[i] = Some(9);
        }
        assert_eq!(rank(quorum, &counters), Rank::Done(9));
    }
}

#[test]
fn once_the_masters_of_the_mask_hold_the_token_it_stays_the_token_and_is_done() {
    for quorum in quorums(5) {
        for counters in answers(quorum.masters(), 4) {
            let Rank::WriteBack(token, mask) = rank(quorum, &counters) else { continue };
            let lifted: Vec<Option<u64>> = (0..quorum.masters())
                .map(|i| if mask & 1 << i != 0 { Some(counters[i].unwrap_or(0).max(token)) } else { counters[i] })
                .collect();
            assert_eq!(rank(quorum, &lifted), Rank::Done(token), "{quorum:?} {counters:?}");
        }
    }
}

#[test]
fn tokens_with_all_hand_overs_stay_exact_in_a_double() {
    let last = LIMIT - STEP + (STEP - 1);
    assert_eq!(last as f64 as u64, last);
    assert!(last < LIMIT && LIMIT == 1 << 53);
}

/// What a simulation of grants came to.
#[derive(Debug, Default)]
struct Outcome {
    grants: u64,
    one_round: u64,
    /// Grants whose token by the rank rule is not at least a step above every earlier one.
    broken: u64,
    /// The same for the largest counter of the same answers, never written back.
    naive_broken: u64,
}

/// Attempts one after another, each with a random subset of the masters in reach; clients' clocks disagree, and so do
/// the counters. With a margin, the first `f` masters answer whatever they like and forget.
fn simulate(quorum: Quorum, attempts: u32, write_back: bool, seed: u64) -> Outcome {
    let mut seeded = Seeded(seed);
    let mut counters = vec![0_u64; quorum.masters()];
    let mut out = Outcome::default();
    let (mut last, mut naive_last) = (0, 0);
    for attempt in 0..u64::from(attempts) {
        // Clocks that lag behind make the counters alone carry the order, in half of the attempts.
        let proposal = if seeded.below(2) == 0 { 0 } else { attempt * 40 + seeded.below(4_000) };
        let mut answers = vec![None; quorum.masters()];
        for i in 0..quorum.masters() {
            if seeded.below(10) < 3 {
                continue;
            }
            counters[i] = (counters[i] + STEP).max(proposal);
            // The master counts, and its answer is lost.
            if seeded.below(10) < 9 {
                answers[i] = Some(counters[i]);
            }
            if i < quorum.margin() && seeded.below(3) == 0 {
                counters[i] = 0;
                answers[i] = Some(seeded.below(1 << 40));
            }
        }
        let token = match rank(quorum, &answers) {
            Rank::NotEnough => continue,
            Rank::Done(token) => {
                out.one_round += 1;
                token
            }
            Rank::WriteBack(token, mask) => {
                let mut holds = answers.iter().flatten().filter(|c| **c >= token).count();
                for i in (0..quorum.masters()).filter(|i| mask & 1 << i != 0) {
                    if write_back && seeded.below(10) < 7 {
                        counters[i] = counters[i].max(token);
                        holds += usize::from(seeded.below(10) < 9);
                    }
                }
                if write_back && !quorum.reached(holds) {
                    continue;
                }
                token
            }
        };
        out.grants += 1;
        out.broken += u64::from(token < last + STEP);
        last = last.max(token);
        let naive = answers.iter().flatten().max().copied().unwrap_or(0);
        out.naive_broken += u64::from(naive <= naive_last);
        naive_last = naive_last.max(naive);
    }
    out
}

#[test]
fn tokens_rise_by_a_step_from_grant_to_grant() {
    let mut grants = 0;
    for (n, f, attempts) in [(3, 0, 80_000), (5, 0, 90_000), (5, 1, 180_000), (4, 0, 40_000), (7, 2, 30_000)] {
        let out = simulate(Quorum::new(n, f).unwrap(), attempts, true, 42 + n as u64 + f as u64);
        assert_eq!(out.broken, 0, "{n} {f} {out:?}");
        assert!(out.one_round > out.grants / 10, "{n} {f} {out:?}");
        grants += out.grants;
    }
    assert!(grants >= 200_000, "{grants}");
}

#[test]
fn the_same_simulation_breaks_the_largest_counter_and_the_rank_rule_without_write_back() {
    // Otherwise the test above could not fail.
    for (n, f) in [(3, 0), (5, 0), (5, 1)] {
        let quorum = Quorum::new(n, f).unwrap();
        let with = simulate(quorum, 20_000, true, 7);
        assert!(with.naive_broken > with.grants / 100, "{n} {f} {with:?}");
        let without = simulate(quorum, 20_000, false, 7);
        assert!(without.broken > without.grants / 100, "{n} {f} {without:?}");
    }
}

#[test]
fn a_token_is_the_leases_only_if_a_quorum_held_it_before_the_lease_ended() {
    use super::super::fence::{Settling, settle, written_back};
    use super::at;
    let quorum = Quorum::new(3, 0).unwrap();
    let until = at(100);
    let just_before = until.minus(std::time::Duration::from_nanos(1));
    let (done, apart) = ([Some(640), Some(640), None], [Some(640), Some(704), None]);
    for (now, late) in [(at(0), false), (just_before, false), (until, true), (at(101), true)] {
        let expected = if late { Settling::Late } else { Settling::Token(640) };
        assert_eq!(settle(quorum, &done, now, until), expected, "{now:?}");
        assert_eq!(settle(quorum, &[None, None, Some(640)], now, until), Settling::Late, "too few counters");
        let expected = if late { Settling::Late } else { Settling::Token(704) };
        assert_eq!(written_back(704, true, now, until, until), expected, "{now:?}");
        // Extended meanwhile: the deadline at the question counts. Lost or given up meanwhile: nothing does.
        assert_eq!(written_back(704, true, now, until, at(200)), expected, "{now:?}");
        assert_eq!(written_back(704, true, now, until, Mono::ZERO), Settling::Late, "{now:?}");
        assert_eq!(written_back(704, false, now, until, until), Settling::NoQuorum);
    }
    // The write-back has its own look at the clock.
    assert_eq!(settle(quorum, &apart, at(101), until), Settling::WriteBack(704));
}
