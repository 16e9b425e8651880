//! The wire as it ships, but for the sockets.

pub(crate) mod conn;
mod poll;

#[path = "../../../src/wire/conversation.rs"]
pub(crate) mod conversation;
#[path = "../../../src/wire/decode.rs"]
pub(crate) mod decode;
#[path = "../../../src/wire/encode.rs"]
pub(crate) mod encode;
#[path = "../../../src/wire/lane.rs"]
pub(crate) mod lane;
#[path = "../../../src/wire/leader.rs"]
pub(crate) mod leader;
#[path = "../../../src/wire/link.rs"]
pub(crate) mod link;
#[path = "../../../src/wire/packed.rs"]
pub(crate) mod packed;
#[path = "../../../src/wire/reader.rs"]
mod reader;
#[path = "../../../src/wire/reply.rs"]
pub(crate) mod reply;
#[path = "../../../src/wire/request.rs"]
pub(crate) mod request;
#[path = "../../../src/wire/scripts.rs"]
pub(crate) mod scripts;
#[path = "../../../src/wire/sources.rs"]
mod sources;

pub(crate) use conn::Pooled;
