//! Where a panic ends: at the border of code that is not ours, and at the bottom of a background thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code that is not ours; whether it came through. A panic in it ends here, and so does one in the drop of what it
/// panicked with.
pub(crate) fn survives(foreign: impl FnOnce()) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(foreign)) else { return true };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    false
}
