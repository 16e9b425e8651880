use super::super::validity;
use super::super::{Answer, Attempt, Cause, Drift, Judgement, LossReason, Mono, Quorum, Round, Rule};
use super::at;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);

fn round(answers: &[Option<Answer>]) -> Round {
    let mut round = Round::new(Quorum::new(answers.len(), 0).unwrap(), Rule::Quorum);
    for (i, answer) in answers.iter().enumerate() {
        if let Some(answer) = answer {
            round.on_answer(i, answer.clone(), at(1));
        }
    }
    round
}

#[test]
fn a_granted_attempt_is_not_undone_and_a_failed_one_is_wherever_it_may_have_left_a_key() {
    let attempt = Attempt::acquiring(at(0), TTL, Drift::DEFAULT);
    let mut granted = round(&[Some(Answer::Yes(None)), Some(Answer::Stale), Some(Answer::Yes(None))]);
    let judgement = attempt.judge(&granted, at(2));
    assert_eq!((judgement.clone(), attempt.end(&judgement, &mut granted)), (Judgement::Granted, 0));
    assert!(granted.is_open());

    let answers = [
        None,
        Some(Answer::Yes(None)),
        Some(Answer::Stale),
        Some(Answer::HeldByOther(None)),
        Some(Answer::Failed(Cause::TimedOut)),
        Some(Answer::Failed(Cause::Broken("".into()))),
        Some(Answer::Failed(Cause::Down("".into()))),
    ];
    let mut failed = round(&answers);
    let judgement = attempt.judge(&failed, at(2));
    assert_ne!(judgement, Judgement::Granted);
    assert_eq!(
        attempt.end(&judgement, &mut failed),
        0b011_0111,
        "no answer, yes, stale, and what may have been executed"
    );
    assert!(!failed.is_open(), "nothing of it is sent any more");
}

#[test]
fn an_adoption_counts_until_the_end_of_the_lease_before() {
    let yes = round(&[Some(Answer::Yes(None)), Some(Answer::Yes(None)), None]);
    for (until_old, granted) in [(at(3), true), (at(2), false), (Mono::ZERO, false), (Mono::NEVER, true)] {
        let attempt = Attempt::adopting(at(0), TTL, Drift::DEFAULT, until_old);
        assert_eq!(attempt.judge(&yes, at(2)) == Judgement::Granted, granted, "{until_old:?}");
        let until = validity::until(at(0), TTL, Drift::DEFAULT).min(until_old.max(at(0)));
        assert_eq!(attempt.until(), until, "{until_old:?}");
    }
}

#[test]
fn what_a_majority_says_against_a_lease() {
    let (held, none) = (Some(Answer::HeldByOther(None)), Some(Answer::Absent));
    let cases = [
        (round(&[held.clone(), held.clone(), None]), Some(LossReason::Taken), Some(LossReason::Taken)),
        (round(&[held.clone(), none.clone(), None]), Some(LossReason::KeyAbsent), None),
        (round(&[none.clone(), none.clone(), None]), Some(LossReason::KeyAbsent), None),
        (round(&[held, None, None]), None, None),
    ];
    for (round, without, with) in cases {
        assert_eq!((round.against(false), round.against(true)), (without, with), "{round:?}");
    }
}
