//! The scripts of redleash, run by the Lua that Redis has.

use super::keyspace::Keyspace;
use super::resp::Reply;
use mlua::{Function, Lua, MultiValue, Table, Value};
use redleash::unversioned::scripts;
use std::cell::RefCell;
use std::rc::Rc;

/// What a running script sees: the keys and one time.
#[derive(Default)]
struct Scene {
    keys: Keyspace,
    now_us: i64,
    /// The name of the server's history.
    replid: String,
}

struct Script {
    text: &'static str,
    sha: String,
    function: Function,
}

/// A Lua state with all scripts compiled. One per thread.
pub struct Interpreter {
    lua: Lua,
    scripts: Vec<Script>,
    scene: Rc<RefCell<Scene>>,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").finish_non_exhaustive()
    }
}

impl Interpreter {
    /// Compiles all scripts.
    ///
    /// # Errors
    ///
    /// If a script is not Lua.
    pub fn new() -> mlua::Result<Interpreter> {
        let lua = Lua::new();
        let scene = Rc::new(RefCell::new(Scene::default()));
        let redis = lua.create_table()?;
        for (name, raises) in [("call", true), ("pcall", false)] {
            let scene = scene.clone();
            redis.set(name, lua.create_function(move |lua, args: MultiValue| call(lua, &scene, &args, raises))?)?;
        }
        lua.globals().set("redis", redis)?;
        let compile = |s: redleash::unversioned::ScriptText| {
            let function = lua.load(s.text).set_name(s.name).into_function()?;
            Ok(Script { text: s.text, sha: s.sha, function })
        };
        let scripts = scripts().into_iter().map(compile).collect::<mlua::Result<Vec<_>>>()?;
        Ok(Interpreter { lua, scripts, scene })
    }

    /// The number of a script by its text.
    pub fn by_text(&self, text: &[u8]) -> Option<usize> {
        self.scripts.iter().position(|s| s.text.as_bytes() == text)
    }

    /// The number of a script by its digest.
    pub fn by_sha(&self, sha: &[u8]) -> Option<usize> {
        self.scripts.iter().position(|s| s.sha.as_bytes().eq_ignore_ascii_case(sha))
    }

    /// Runs script `number` on `keys` at one moment of the server's clock, on a server with this replication id.
    pub fn run(
        &self,
        number: usize,
        names: &[&[u8]],
        args: &[&[u8]],
        keys: &mut Keyspace,
        (now_us, replid): (i64, &str),
    ) -> Reply {
        *self.scene.borrow_mut() = Scene { keys: std::mem::take(keys), now_us, replid: replid.into() };
        let result = self.evaluate(&self.scripts[number].function, names, args);
        *keys = std::mem::take(&mut self.scene.borrow_mut().keys);
        match result {
            Ok(value) => reply(&value),
            Err(e) => Reply::Error(message(&e)),
        }
    }

    fn evaluate(&self, function: &Function, names: &[&[u8]], args: &[&[u8]]) -> mlua::Result<Value> {
        let table = |words: &[&[u8]]| -> mlua::Result<Table> {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (i, word) in words.iter().enumerate() {
                table.raw_set(i + 1, self.lua.create_string(word)?)?;
            }
            Ok(table)
        };
        let globals = self.lua.globals();
        globals.raw_set("KEYS", table(names)?)?;
        globals.raw_set("ARGV", table(args)?)?;
        function.call(())
    }
}

/// The error of a script: what Redis said, or Lua.
fn message(e: &mlua::Error) -> String {
    match e {
        mlua::Error::CallbackError { cause, .. } => message(cause),
        mlua::Error::ExternalError(e) => e.to_string(),
        e => format!("ERR {}", e.to_string().lines().next().unwrap_or_default()),
    }
}

#[derive(Debug)]
struct RedisError(String);

impl std::fmt::Display for RedisError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RedisError {}

fn call(lua: &Lua, scene: &RefCell<Scene>, args: &MultiValue, raises: bool) -> mlua::Result<Value> {
    let mut words = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            Value::String(s) => words.push(s.as_bytes().to_vec()),
            Value::Integer(n) => words.push(n.to_string().into_bytes()),
            Value::Number(n) => words.push(text_of(*n).into_bytes()),
            _ => return Err(mlua::Error::external(RedisError(WRONG_ARGUMENT.into()))),
        }
    }
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let scene = &mut *scene.borrow_mut();
    if let [b"INFO", b"replication"] = *words {
        let text = format!("# Replication\r\nrole:master\r\nmaster_replid:{}\r\n", scene.replid);
        return value(lua, &Reply::Bulk(text.into_bytes()));
    }
    match scene.keys.run(&words, scene.now_us) {
        Reply::Error(e) if raises => Err(mlua::Error::external(RedisError(e))),
        reply => value(lua, &reply),
    }
}

const WRONG_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// A number as Redis makes a string of it.
fn text_of(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 1e17 { format!("{n:.0}") } else { format!("{n}") }
}

/// A reply as a script sees it.
fn value(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(n) => Value::Number(*n as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(text) => field("ok", text)?,
        Reply::Error(text) => field("err", text)?,
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, value(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

/// What a script returns as a reply: numbers lose their fraction, a table ends at the first nil.
fn reply(value: &Value) -> Reply {
    match value {
        Value::String(s) => Reply::Bulk(s.as_bytes().to_vec()),
        Value::Integer(n) => Reply::Int(*n),
        Value::Number(n) => Reply::Int(*n as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            let field = |name: &str| match table.raw_get::<Value>(name) {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            if let Some(text) = field("err") {
                return Reply::Error(text);
            }
            if let Some(text) = field("ok") {
                return Reply::Status(text);
            }
            let items = (1..).map_while(|i| match table.raw_get::<Value>(i) {
                Ok(Value::Nil) | Err(_) => None,
                Ok(item) => Some(reply(&item)),
            });
            Reply::Array(items.collect())
        }
        _ => Reply::Nil,
    }
}
