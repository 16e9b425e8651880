use super::super::Quorum;
use super::super::retry::MAY_BE_FREE_WITHIN;
use super::super::round::{Answer, Cause, Judgement, Round, Rule};
use super::{at, ms, quorums};
use std::time::Duration;

const KINDS: [Answer; 5] = [
    Answer::Yes(None),
    Answer::HeldByOther(None),
    Answer::Absent,
    Answer::Failed(Cause::TimedOut),
    Answer::Quarantined(Duration::from_secs(60)),
];

fn is_yes(a: &Answer) -> bool {
    matches!(a, Answer::Yes(_))
}

fn is_held(a: &Answer) -> bool {
    matches!(a, Answer::HeldByOther(_))
}

/// What a caller does about a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Granted,
    Contended,
    Absent,
    Outage,
}

fn class(round: &Round) -> Class {
    match round.judge(at(1), at(2)) {
        Judgement::Granted => Class::Granted,
        Judgement::HeldByOther(_) | Judgement::Split => Class::Contended,
        Judgement::Absent => Class::Absent,
        Judgement::NoQuorum | Judgement::Quarantined(_) => Class::Outage,
        other => panic!("{other:?}"),
    }
}

/// A round of which some answers are in, beside what the test knows of them.
#[derive(Clone)]
struct Walk {
    round: Round,
    answers: Vec<Option<Answer>>,
    decided_as: Option<Class>,
}

impl Walk {
    fn new(quorum: Quorum) -> Walk {
        Walk { round: Round::new(quorum, Rule::Quorum), answers: vec![None; quorum.masters()], decided_as: None }
    }

    fn count(&self, pred: fn(&Answer) -> bool) -> usize {
        self.answers.iter().flatten().filter(|a| pred(a)).count()
    }

    fn answer(&self, i: usize, answer: &Answer) -> Walk {
        let mut next = self.clone();
        let decides = next.round.on_answer(i, answer.clone(), at(0));
        assert!(!next.round.on_answer(i, Answer::Yes(None), at(0)), "a second answer decides nothing");
        next.answers[i] = Some(answer.clone());
        assert_eq!(decides, next.round.is_decided() && self.decided_as.is_none());
        if next.decided_as.is_none() && next.round.is_decided() {
            next.decided_as = Some(class(&next.round));
        }
        next
    }
}

/// Visits every arrival order of every answer, every prefix of it included: a prefix is a round whose time-out happens
/// there, and its later answers are late ones.
fn walk(at_node: &Walk, kinds: &[Answer], check: &mut impl FnMut(&Walk)) {
    check(at_node);
    for i in 0..at_node.answers.len() {
        if at_node.answers[i].is_none() {
            for kind in kinds {
                walk(&at_node.answer(i, kind), kinds, check);
            }
        }
    }
}

/// Every number of votes that a quorum of up to `max` masters can need. (A round knows the margin only by its quorum.)
fn distinct(max: usize) -> impl Iterator<Item = Quorum> {
    quorums(max).filter(|q| q.margin() == 0 || Quorum::new(q.masters(), q.margin() - 1).unwrap().votes() < q.votes())
}

fn check_every_course(quorum: Quorum, kinds: &[Answer]) -> u64 {
    let mut visited = 0;
    walk(&Walk::new(quorum), kinds, &mut |w| {
        let (yes, waiting) = (w.count(is_yes), w.answers.iter().filter(|a| a.is_none()).count());
        let granted = |end, until| w.round.judge(end, until) == Judgement::Granted;
        assert_eq!((w.round.yes(), w.round.reached()), (yes, yes >= quorum.votes()), "{quorum:?} {:?}", w.answers);
        assert_eq!(granted(at(1), at(2)), yes >= quorum.votes(), "{quorum:?} {:?}", w.answers);
        if yes >= quorum.votes() {
            assert!(!granted(at(2), at(2)) && !granted(at(3), at(2)), "{quorum:?} {:?}", w.answers);
        }
        assert_eq!(w.round.is_decided(), w.decided_as.is_some());
        assert!(w.round.is_decided() || waiting > 0, "{quorum:?} {:?}", w.answers);
        if yes >= quorum.votes() || quorum.out_of_reach(w.count(is_held)) {
            assert!(w.round.is_decided(), "{quorum:?} {:?}", w.answers);
        }
        visited += 1;
        let (Some(decided), now) = (w.decided_as, class(&w.round)) else { return };
        assert_eq!(decided == Class::Granted, now == Class::Granted, "{quorum:?} {:?}", w.answers);
        // With an even number or a margin, two opposite minorities can each be enough to prevent a quorum.
        if 2 * quorum.votes() == quorum.masters() + 1 {
            // A key that is absent may turn out to be taken; either way it is not ours.
            let refined = (decided, now) == (Class::Absent, Class::Contended);
            assert!(decided == now || refined, "{decided:?} {quorum:?} {:?}", w.answers);
        }
    });
    visited
}

#[test]
fn up_to_four_masters_grant_by_a_timely_quorum_only_and_a_decision_stands_in_every_course_of_answers() {
    let visited: u64 = distinct(4).map(|quorum| check_every_course(quorum, &KINDS)).sum();
    assert_eq!(visited, 6 + 61 + 2 * 916 + 2 * 18_321);
}

#[test]
fn five_masters_grant_by_a_timely_quorum_only_and_a_decision_stands_in_every_course_of_answers() {
    // Failures and quarantine are one kind here: neither is a vote. A quorum of all is seen with fewer masters.
    let five = distinct(5).filter(|q| q.masters() == 5 && q.tolerates() > 0);
    let visited: u64 = five.map(|quorum| check_every_course(quorum, &KINDS[..4])).sum();
    assert_eq!(visited, 2 * 157_781);
}

#[test]
fn contention_is_told_from_an_outage_while_a_minority_is_away() {
    // A master that is away makes a quorum impossible early: the answers that are still due must be heard all the same.
    for quorum in distinct(5) {
        let n = quorum.masters();
        for away in (0..1_u32 << n).filter(|m| m.count_ones() as usize <= quorum.tolerates()) {
            for how in 0..3 {
                let mut start = Walk::new(quorum);
                for i in (0..n).filter(|i| away & 1 << i != 0) {
                    match how {
                        0 => start = start.answer(i, &Answer::Failed(Cause::Hung)),
                        1 => start = start.answer(i, &Answer::Quarantined(Duration::from_secs(60))),
                        _ => drop(start.round.do_not_await(i)),
                    }
                    start.answers[i] = Some(Answer::Absent);
                }
                walk(&start, &[Answer::HeldByOther(Some(ms(9)))], &mut |w| {
                    if w.round.is_decided() {
                        assert_eq!(class(&w.round), Class::Contended, "{quorum:?} {:?}", w.round.answers());
                    }
                });
            }
        }
    }
}

#[test]
fn a_round_without_enough_live_masters_is_decided_without_waiting_for_the_others() {
    for quorum in quorums(5) {
        let mut round = Round::new(quorum, Rule::Quorum);
        for i in 0..=quorum.tolerates() {
            assert!(!round.is_decided());
            let last = i == quorum.tolerates();
            let decides = if i % 2 == 0 { round.on_answer(i, KINDS[3].clone(), at(0)) } else { round.do_not_await(i) };
            assert_eq!(decides, last, "{quorum:?} {i}");
        }
        assert_eq!(round.judge(at(1), at(2)), Judgement::NoQuorum);
    }
}

#[test]
fn a_late_vote_of_a_master_that_nobody_waited_for_counts_in_its_own_round() {
    let mut round = Round::new(Quorum::new(3, 0).unwrap(), Rule::Quorum);
    assert!(!round.do_not_await(0));
    assert!(!round.on_answer(1, Answer::Yes(None), at(0)));
    assert!(round.on_answer(0, Answer::Yes(None), at(0)));
    assert_eq!(round.judge(at(1), at(2)), Judgement::Granted);
    assert!(!round.on_answer(2, Answer::Yes(None), at(0)), "decided already");
    assert_eq!((round.yes(), round.yes_mask()), (3, 0b111));
}

#[test]
fn the_first_answer_of_a_master_stands() {
    for first in &KINDS {
        for second in &KINDS {
            let mut round = Round::new(Quorum::new(3, 0).unwrap(), Rule::Quorum);
            round.on_answer(1, first.clone(), at(0));
            assert!(!round.on_answer(1, second.clone(), at(5)));
            assert_eq!(round.answers()[1], Some((first.clone(), at(0))));
            assert_eq!(round.yes(), usize::from(is_yes(first)));
        }
    }
}

#[test]
fn an_answer_of_a_master_that_is_not_there_is_dropped() {
    let mut round = Round::new(Quorum::new(1, 0).unwrap(), Rule::Quorum);
    assert!(!round.on_answer(1, Answer::Yes(None), at(0)) && !round.on_answer(usize::MAX, Answer::Yes(None), at(0)));
    assert_eq!((round.yes(), round.is_decided()), (0, false));
}

#[test]
fn rivals_never_both_win_however_the_masters_vote() {
    for quorum in quorums(7) {
        let n = quorum.masters();
        // Each master votes for nobody, one, or the other; up to the margin are faulty and vote for both.
        for code in 0..4_usize.pow(n as u32) {
            let votes: Vec<usize> = (0..n as u32).map(|i| code / 4_usize.pow(i) % 4).collect();
            if votes.iter().filter(|v| **v == 3).count() > quorum.margin() {
                continue;
            }
            let wins = |who: usize| {
                let mut round = Round::new(quorum, Rule::Quorum);
                for (i, vote) in votes.iter().enumerate().filter(|(_, v)| **v > 0) {
                    let mine = vote & who != 0;
                    round.on_answer(i, if mine { Answer::Yes(None) } else { Answer::HeldByOther(None) }, at(0));
                }
                round.reached() && round.judge(at(1), at(2)) == Judgement::Granted
            };
            assert!(!(wins(1) && wins(2)), "{quorum:?} {votes:?}");
        }
    }
}

fn judged(quorum: Quorum, answers: &[Option<Answer>]) -> Judgement {
    let mut round = Round::new(quorum, Rule::Quorum);
    for (i, answer) in answers.iter().enumerate() {
        if let Some(answer) = answer {
            round.on_answer(i, answer.clone(), at(0));
        }
    }
    round.judge(at(1), at(2))
}

fn judge3(answers: [Option<Answer>; 3]) -> Judgement {
    judged(Quorum::new(3, 0).unwrap(), &answers)
}

const YES: Option<Answer> = Some(Answer::Yes(None));
const HELD: Option<Answer> = Some(Answer::HeldByOther(None));
const FAILED: Option<Answer> = Some(Answer::Failed(Cause::TimedOut));
const ABSENT: Option<Answer> = Some(Answer::Absent);
const STALE: Option<Answer> = Some(Answer::Stale);

fn quarantined(n: u64) -> Option<Answer> {
    Some(Answer::Quarantined(ms(n)))
}

fn conflict() -> Option<Answer> {
    Some(Answer::Conflict("hash".into()))
}

fn mismatch() -> Option<Answer> {
    Some(Answer::Mismatch("1:c:3:2".into()))
}

#[test]
fn others_hold_it_until_a_quorum_is_free_by_the_ttls_that_were_told() {
    let held = |n| Some(Answer::HeldByOther(Some(ms(n))));
    assert_eq!(judge3([held(9), held(5), None]), Judgement::HeldByOther(Some(ms(9))));
    assert_eq!(judge3([held(9), held(5), held(7)]), Judgement::HeldByOther(Some(ms(7))));
    assert_eq!(judge3([held(9), HELD, None]), Judgement::HeldByOther(Some(ms(9))));
    assert_eq!(judge3([HELD, held(5), YES]), Judgement::HeldByOther(Some(ms(5))));
    assert_eq!(judge3([HELD, HELD, None]), Judgement::HeldByOther(None));
    // A vote of ours is free at once: the quorum of three is the one of it, 2 and 4.
    let five = Quorum::new(5, 0).unwrap();
    assert_eq!(judged(five, &[YES, held(2), held(4), held(6), None]), Judgement::HeldByOther(Some(ms(4))));
}

#[test]
fn a_split_is_told_where_the_others_votes_are_all_that_is_missing() {
    assert_eq!(judge3([YES, HELD, None]), Judgement::Split);
    assert_eq!(judge3([YES, HELD, FAILED]), Judgement::Split);
    assert_eq!(judge3([YES, HELD, quarantined(5)]), Judgement::Split);
    assert_eq!(judge3([HELD, FAILED, None]), Judgement::NoQuorum);
    assert_eq!(judge3([HELD, FAILED, conflict()]), Judgement::NoQuorum);
    let four = Quorum::new(4, 0).unwrap();
    assert_eq!(judged(four, &[YES, YES, HELD, None]), Judgement::Split);
    assert_eq!(judged(four, &[YES, YES, HELD, HELD]), Judgement::HeldByOther(Some(MAY_BE_FREE_WITHIN)));
}

#[test]
fn a_minority_with_another_type_or_deployment_does_not_end_a_contended_call() {
    // Such a master is as good as down: an uncontended call succeeds without it, so a contended one must wait.
    for odd in [conflict(), mismatch()] {
        assert_eq!(judge3([odd.clone(), YES, YES]), Judgement::Granted);
        assert_eq!(judge3([odd.clone(), HELD, HELD]), Judgement::HeldByOther(None));
        assert_eq!(judge3([odd.clone(), YES, HELD]), Judgement::Split);
        assert_eq!(judge3([odd.clone(), YES, FAILED]), Judgement::NoQuorum);
        assert_eq!(judge3([odd, STALE, YES]), Judgement::Unclear);
    }
}

#[test]
fn another_type_or_deployment_on_too_many_masters_ends_the_call_and_is_named() {
    assert_eq!(judge3([YES, conflict(), conflict()]), Judgement::Conflict(1, "hash".into()));
    assert_eq!(judge3([mismatch(), mismatch(), None]), Judgement::Mismatch(0, "1:c:3:2".into()));
    assert_eq!(judge3([FAILED, mismatch(), conflict()]), Judgement::Mismatch(1, "1:c:3:2".into()));
    assert_eq!(judged(Quorum::new(1, 0).unwrap(), &[conflict()]), Judgement::Conflict(0, "hash".into()));
}

#[test]
fn a_quarantine_is_reported_with_the_time_that_it_alone_costs() {
    assert_eq!(judge3([quarantined(9), quarantined(5), YES]), Judgement::Quarantined(ms(5)));
    assert_eq!(judge3([quarantined(9), quarantined(5), HELD]), Judgement::Quarantined(ms(5)));
    assert_eq!(judge3([quarantined(9), quarantined(5), FAILED]), Judgement::Quarantined(ms(5)));
    assert_eq!(judge3([quarantined(9), quarantined(5), quarantined(7)]), Judgement::Quarantined(ms(7)));
    let five = Quorum::new(5, 0).unwrap();
    let three = [quarantined(9), YES, quarantined(5), YES, quarantined(7)];
    assert_eq!(judged(five, &three), Judgement::Quarantined(ms(5)));
    assert_eq!(judged(Quorum::new(1, 0).unwrap(), &[quarantined(3)]), Judgement::Quarantined(ms(3)));
}

#[test]
fn a_quarantine_that_only_coincides_with_a_failure_is_an_outage_that_may_end_sooner() {
    // The failed master may answer the next round: nothing says that the outage lasts as long as the quarantine.
    assert_eq!(judge3([quarantined(60_000), YES, FAILED]), Judgement::NoQuorum);
    assert_eq!(judge3([quarantined(60_000), HELD, None]), Judgement::NoQuorum);
    assert_eq!(judge3([quarantined(60_000), FAILED, None]), Judgement::NoQuorum);
}

#[test]
fn a_master_that_plain_commands_could_not_judge_is_asked_again_unless_others_hold_the_lock() {
    for unclear in [STALE, Some(Answer::Unclear)] {
        assert_eq!(judge3([unclear.clone(), YES, FAILED]), Judgement::Unclear);
        assert_eq!(judge3([unclear.clone(), HELD, HELD]), Judgement::HeldByOther(None));
        assert_eq!(judge3([unclear, YES, YES]), Judgement::Granted);
    }
}

#[test]
fn an_extension_learns_whether_its_key_is_taken_or_gone() {
    let quorum = Quorum::new(3, 0).unwrap();
    assert_eq!(judge3([ABSENT, ABSENT, YES]), Judgement::Absent);
    assert_eq!(judge3([ABSENT, HELD, YES]), Judgement::Absent);
    assert_eq!(judge3([HELD, HELD, ABSENT]), Judgement::HeldByOther(None));
    assert_eq!(judge3([ABSENT, YES, FAILED]), Judgement::NoQuorum);
    for bits in 0..27_usize {
        let kinds = [bits % 3, bits / 3 % 3, bits / 9];
        let mut round = Round::new(quorum, Rule::Quorum);
        for (i, kind) in kinds.into_iter().enumerate() {
            round.on_answer(i, KINDS[kind].clone(), at(0));
        }
        let [yes, held, absent] = [0, 1, 2].map(|k| kinds.iter().filter(|x| **x == k).count());
        assert_eq!((round.taken(), round.taken_or_absent()), (held >= 2, held + absent >= 2), "{kinds:?}");
        assert_eq!(round.reached(), yes >= 2, "{kinds:?}");
    }
}

#[test]
fn a_quorum_that_came_too_late_is_no_grant() {
    let mut round = Round::new(Quorum::new(1, 0).unwrap(), Rule::Quorum);
    round.on_answer(0, Answer::Yes(None), at(0));
    assert_eq!(round.judge(at(4), at(5)), Judgement::Granted);
    assert_eq!(round.judge(at(5), at(5)), Judgement::TooSlow);
    assert_eq!(round.judge(at(6), at(5)), Judgement::TooSlow);
}

#[test]
fn a_vote_that_came_after_the_end_was_read_does_not_complete_a_quorum_in_time() {
    // A thread that gave up at its limit may be stopped before it looks at the answers; votes come in meanwhile.
    for order in [[1, 2, 9], [9, 2, 1], [2, 9, 1], [9, 9, 1]] {
        let mut round = Round::new(Quorum::new(3, 0).unwrap(), Rule::Quorum);
        assert_eq!(round.complete_at(), None);
        for (i, time) in order.into_iter().enumerate() {
            round.on_answer(i, Answer::Yes(None), at(time));
        }
        let complete = if order == [9, 9, 1] { 9 } else { 2 };
        assert_eq!(round.complete_at(), Some(at(complete)));
        let late = complete == 9;
        assert_eq!(round.judge(at(1), at(5)), if late { Judgement::TooSlow } else { Judgement::Granted });
    }
}

#[test]
fn a_round_for_all_ends_with_the_last_master_that_is_waited_for() {
    for away in 0..16_u32 {
        let mut round = Round::new(Quorum::new(4, 0).unwrap(), Rule::All);
        let mut decided = false;
        for i in 0..4 {
            let decides =
                if away & 1 << i != 0 { round.do_not_await(i) } else { round.on_answer(i, Answer::Yes(None), at(0)) };
            assert_eq!(decides, i == 3, "{away:04b} {i}");
            decided |= decides;
        }
        assert!(decided && round.is_decided());
    }
}

#[test]
fn a_renewal_of_many_leases_waits_for_a_slow_master_only_where_a_lease_needs_it() {
    let (yes, held) = (Answer::Yes(None), Answer::HeldByOther(None));
    let all = Answer::Many(vec![yes.clone(), yes.clone()]);
    let one = Answer::Many(vec![yes, held]);
    let decided = |answers: &[&Answer]| {
        let mut round = Round::new(Quorum::new(3, 0).unwrap(), Rule::QuorumOrAll);
        for (i, answer) in answers.iter().enumerate() {
            round.on_answer(i, (*answer).clone(), at(1));
        }
        round.is_decided()
    };
    assert!(!decided(&[&all]));
    assert!(decided(&[&all, &all]));
    assert!(!decided(&[&all, &one]));
    assert!(decided(&[&all, &one, &all]));
    assert!(decided(&[&one, &one, &one]));
}

#[test]
fn the_counters_of_votes_are_kept_by_master() {
    let mut round = Round::new(Quorum::new(4, 0).unwrap(), Rule::Quorum);
    round.on_answer(2, Answer::Yes(Some(7)), at(0));
    round.on_answer(0, Answer::Yes(None), at(0));
    round.on_answer(1, Answer::HeldByOther(None), at(0));
    assert_eq!(round.counters(), [None, None, Some(7), None]);
}

#[test]
fn a_round_knows_whether_it_may_be_sent_again() {
    let mut round = Round::new(Quorum::new(32, 0).unwrap(), Rule::Quorum);
    assert!(round.is_open());
    round.close();
    assert!(!round.is_open());
}

#[test]
fn a_master_is_awaited_until_it_answers_or_is_given_up_and_no_other_is_touched() {
    for quorum in quorums(5) {
        let n = quorum.masters();
        for answered in 0..1_usize << n {
            let mut round = Round::new(quorum, Rule::All);
            let has = |i: usize| answered >> i & 1 == 1;
            for i in (0..n).filter(|i| has(*i)) {
                if i % 2 == 0 {
                    round.on_answer(i, Answer::Yes(None), at(1));
                } else {
                    round.do_not_await(i);
                }
            }
            (0..n).for_each(|i| assert_eq!(round.awaits(i), !has(i), "{i} of {n}, {answered:b}"));
        }
    }
}

#[test]
fn a_command_is_sent_again_only_while_its_round_is_open_and_undecided() {
    for (decided, closed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut round = Round::new(Quorum::new(1, 0).unwrap(), Rule::Quorum);
        if decided {
            round.on_answer(0, Answer::Yes(None), at(1));
        }
        if closed {
            round.close();
        }
        assert_eq!(round.may_be_sent_again(), !decided && !closed, "decided {decided}, closed {closed}");
        assert_eq!((round.is_decided(), round.is_open()), (decided, !closed));
    }
}

#[test]
fn an_outage_is_what_the_masters_are_the_reason_of() {
    let outages = [Judgement::TooSlow, Judgement::NoQuorum, Judgement::Quarantined(ms(1))];
    assert!(outages.iter().all(Judgement::is_outage));
    let others = [
        Judgement::Granted,
        Judgement::HeldByOther(None),
        Judgement::Split,
        Judgement::Absent,
        Judgement::Unclear,
        Judgement::Conflict(0, "list".into()),
        Judgement::Mismatch(0, "x".into()),
    ];
    assert!(!others.iter().any(Judgement::is_outage));
}

#[test]
fn the_parts_of_a_round_about_many_leases() {
    let mut round = Round::new(Quorum::new(5, 0).unwrap(), Rule::All);
    let many = |answers: &[Answer]| Answer::Many(answers.to_vec());
    round.on_answer(0, many(&[Answer::Yes(None), Answer::HeldByOther(None)]), at(1));
    round.on_answer(1, many(&[Answer::Yes(None), Answer::HeldByOther(None)]), at(2));
    round.on_answer(2, many(&[Answer::Yes(None)]), at(3));
    round.on_answer(3, Answer::Failed(Cause::TimedOut), at(4));
    let parts = round.parts(2);
    let said = |k: usize| parts[k].answers().iter().map(|a| a.clone().map(|(a, _)| a)).collect::<Vec<_>>();
    let failed = |cause| Some(Answer::Failed(cause));
    let (yes, held, late) = (Some(Answer::Yes(None)), Some(Answer::HeldByOther(None)), failed(Cause::TimedOut));
    assert_eq!(said(0), [yes.clone(), yes.clone(), yes, late.clone(), None]);
    assert_eq!(said(1), [held.clone(), held, failed(Cause::Nonsense), late, None], "a lease that was left out");
    assert_eq!(parts.len(), 2);
    assert_eq!((parts[0].reached(), parts[0].complete_at()), (true, Some(at(3))));
    // Nobody waits for the fifth.
    assert!(parts.iter().all(|part| part.is_decided() && !part.awaits(4)));
}
