use super::super::quorum::{MAX_MASTERS, Quorum};
use super::quorums;

#[test]
fn two_quorums_share_more_masters_than_may_be_faulty() {
    for q in quorums(MAX_MASTERS) {
        assert!(2 * q.votes() > q.masters() + q.margin(), "{q:?}");
        assert!(q.votes() <= q.masters(), "{q:?}");
    }
}

#[test]
fn a_quorum_is_no_larger_than_the_overlap_demands() {
    for q in quorums(MAX_MASTERS) {
        assert!(2 * (q.votes() - 1) <= q.masters() + q.margin(), "{q:?}");
    }
}

#[test]
fn without_a_margin_it_is_the_majority_of_redlock() {
    let votes = |n| Quorum::new(n, 0).unwrap().votes();
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(votes), [1, 2, 2, 3, 3, 4, 4]);
    assert_eq!([(3, 1), (5, 1), (7, 1), (5, 2)].map(|(n, f)| Quorum::new(n, f).unwrap().votes()), [3, 4, 5, 4]);
}

#[test]
fn numbers_of_masters_that_cannot_work_are_refused() {
    assert_eq!(Quorum::new(0, 0), None);
    assert_eq!(Quorum::new(MAX_MASTERS + 1, 0), None);
    assert_eq!(Quorum::new(3, 3), None);
    assert_eq!(Quorum::new(usize::MAX, usize::MAX), None);
    assert_eq!(Quorum::new(3, usize::MAX), None);
    assert_eq!(quorums(MAX_MASTERS).count(), (1..=MAX_MASTERS).sum::<usize>());
}

#[test]
fn reached_out_of_reach_and_tolerates_agree() {
    for q in quorums(MAX_MASTERS) {
        for no in 0..=q.masters() {
            assert_eq!(q.out_of_reach(no), !q.reached(q.masters() - no), "{q:?} {no}");
            assert_eq!(q.out_of_reach(no), no > q.tolerates(), "{q:?} {no}");
        }
        assert!(q.out_of_reach(usize::MAX));
    }
}

#[test]
fn the_set_of_all_masters_has_one_bit_for_each() {
    for q in quorums(MAX_MASTERS) {
        assert_eq!(q.all().count_ones() as usize, q.masters());
        assert_eq!(q.all().trailing_ones() as usize, q.masters());
    }
}
