use super::super::Operation;
use super::super::owner::{Owner, Token};
use super::super::round::{Cause, Rule};
use super::super::wait_list::Notify;
use super::ms;
use std::collections::HashSet;
use std::sync::Arc;

/// One of each.
fn operations() -> Vec<Operation> {
    let from = Arc::new(Owner::new(Token::from_bytes([1; 16]), &Arc::from("x"), 5));
    vec![
        Operation::Acquire { px_ms: 5, full: false, fence: false, entry: None },
        Operation::Extend { px_ms: 5, recreate: true },
        Operation::ExtendMany { leases: Arc::new([]), recreate: true },
        Operation::Adopt { from, px_ms: 5 },
        Operation::Release { keep: ms(0), notify: Some(Notify { waiter: 1, at_once: true }) },
        Operation::Fence,
        Operation::WriteBack(7),
        Operation::Verify,
        Operation::Notify(0),
        Operation::Status,
        Operation::Revoke { now: false },
        Operation::Blank { mark: true },
        Operation::Init { settle: true },
    ]
}

#[test]
fn the_numbers_of_the_operations_fit_a_mask_and_differ() {
    let numbers: HashSet<u32> = operations().iter().map(Operation::number).collect();
    assert_eq!(numbers.len(), operations().len());
    assert!(numbers.iter().all(|n| *n < 32));
}

#[test]
fn what_asks_each_master_for_itself_waits_for_all_and_what_votes_for_a_quorum() {
    for operation in operations() {
        let for_all = matches!(
            operation,
            Operation::Status
                | Operation::Notify(_)
                | Operation::Revoke { .. }
                | Operation::Blank { .. }
                | Operation::Init { .. }
        );
        let rule = match operation {
            Operation::ExtendMany { .. } => Rule::QuorumOrAll,
            _ if for_all => Rule::All,
            _ => Rule::Quorum,
        };
        assert_eq!(operation.rule(), rule, "{operation:?}");
        let vote = matches!(operation, Operation::Acquire { .. } | Operation::Extend { .. } | Operation::Adopt { .. });
        assert_eq!(operation.is_vote(), vote, "{operation:?}");
        assert_eq!(operation.is_release(), matches!(operation, Operation::Release { .. }), "{operation:?}");
        assert_eq!(operation.is_repeatable(), !matches!(operation, Operation::ExtendMany { .. }), "{operation:?}");
    }
}

#[test]
fn each_cause_says_what_was_wrong() {
    let said = |cause: Cause| cause.to_string();
    for (cause, words) in [
        (Cause::TimedOut, "in time"),
        (Cause::Hung, "earlier command"),
        (Cause::ReadOnly, "read-only"),
        (Cause::Nonsense, "no Redis gives"),
        (Cause::FenceRange, "limit"),
    ] {
        assert!(said(cause.clone()).contains(words), "{cause:?}");
    }
    for cause in [Cause::Down("x7".into()), Cause::Broken("x7".into()), Cause::Refused("x7".into())] {
        assert!(said(cause.clone()).ends_with("x7") && said(cause).len() > 10);
    }
}
