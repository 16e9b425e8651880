//! `redleash init`: settles a new deployment.

use crate::args::MasterArgs;
use crate::exit::{CONFIG, Failure, NO_QUORUM};
use crate::masters;
use crate::text::say;
use redleash::Error;

pub(crate) fn init(masters: &MasterArgs) -> Result<u8, Failure> {
    let client = masters::client(masters)?;
    match client.init() {
        Ok(report) => {
            say::result(&report.to_string());
            Ok(0)
        }
        Err(Error::NoQuorum(tally)) => {
            Err(Failure::new(NO_QUORUM, format!("init needs every master: {tally}; run it again when all answer")))
        }
        Err(error @ Error::NotBlank(_)) => Err(Failure::new(
            CONFIG,
            format!(
                "{error}; settled masters need no init, and the others vote by themselves a quarter more than \
                 max-lease after the first lock is asked for"
            ),
        )),
        Err(error) => Err(masters::unfit(&error)),
    }
}
