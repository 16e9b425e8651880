//! What is public, as a list that a review sees: `api.txt` has every public item of the library, without its docs.
//!
//! It is read from the source, so that it is the same with every compiler: the items that `src/lib.rs` exports, their
//! public fields, variants and methods, and the traits that they implement. What the compiler adds by itself (auto
//! traits) is in `tests/api.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Fields, FnArg, ImplItem, Item, ItemImpl, Pat, Type, UseTree, Visibility};

const WRITE: &str = "REDLEASH_WRITE_API";
const COMMAND: &str = "REDLEASH_WRITE_API=1 cargo test -p redleash-verify --test api_surface";
/// Stands for the fields that are not shown.
const PRIVATE: &str = "private_fields_are_not_shown";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

struct Source {
    /// `engine::error` for `src/engine/error.rs`, `redleash_protocol::lease` for `protocol/src/lease.rs`.
    module: String,
    items: Vec<Item>,
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for (folder, prefix) in [("src", ""), ("protocol/src", "redleash_protocol")] {
        let mut open = vec![root().join(folder)];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|e| e == "rs") {
                let below = path.strip_prefix(root().join(folder)).unwrap().with_extension("");
                let parts =
                    below.iter().map(|part| part.to_str().unwrap()).filter(|part| !["mod", "lib"].contains(part));
                let module: Vec<&str> = Some(prefix).filter(|p| !p.is_empty()).into_iter().chain(parts).collect();
                let items = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap().items;
                found.push(Source { module: module.join("::"), items });
            }
        }
    }
    found.sort_by(|a, b| a.module.cmp(&b.module));
    found
}

/// The leaves of a `use`: the path before the name, and the name.
fn leaves(tree: &UseTree, before: &str, out: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, format!("{before}::{}", path.ident).trim_start_matches(':'), out),
        UseTree::Name(name) => out.push((before.into(), name.ident.to_string())),
        UseTree::Rename(name) => out.push((before.into(), name.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, out)),
        UseTree::Glob(_) => out.push((before.into(), "*".into())),
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn has(attributes: &[Attribute], name: &str, argument: &str) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident(name) && a.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains(argument))
    })
}

/// Only what a caller must know: no docs, no lints.
fn trim(attributes: &mut Vec<Attribute>) {
    let kept = ["derive", "cfg_attr", "cfg", "non_exhaustive", "must_use", "deprecated"];
    attributes.retain(|a| {
        kept.iter().any(|name| a.path().is_ident(name)) && !has(std::slice::from_ref(a), "cfg_attr", "serde (with")
    });
    for attribute in attributes {
        if attribute.path().is_ident("must_use") {
            *attribute = syn::parse_quote!(#[must_use]);
        }
    }
}

fn trim_fields(fields: &mut Fields, all_public: bool) {
    match fields {
        Fields::Named(fields) => {
            let before = fields.named.len();
            let shown = std::mem::take(&mut fields.named);
            fields.named = shown.into_iter().filter(|f| all_public || is_public(&f.vis)).collect();
            if fields.named.len() < before {
                let name = syn::Ident::new(PRIVATE, fields.brace_token.span.open());
                fields.named.push(syn::parse_quote!(#name: ()));
            }
            fields.named.iter_mut().for_each(|f| trim(&mut f.attrs));
        }
        Fields::Unnamed(fields) => fields.unnamed.iter_mut().for_each(|f| trim(&mut f.attrs)),
        Fields::Unit => {}
    }
}

/// The name of a public item, which is trimmed.
fn public(item: &mut Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(i) => {
            trim(&mut i.attrs);
            trim_fields(&mut i.fields, false);
            (&i.vis, &i.ident)
        }
        Item::Enum(i) => {
            trim(&mut i.attrs);
            for variant in &mut i.variants {
                trim(&mut variant.attrs);
                trim_fields(&mut variant.fields, true);
            }
            (&i.vis, &i.ident)
        }
        Item::Const(i) => {
            trim(&mut i.attrs);
            (&i.vis, &i.ident)
        }
        Item::Trait(i) => {
            trim(&mut i.attrs);
            (&i.vis, &i.ident)
        }
        Item::Type(i) => {
            trim(&mut i.attrs);
            (&i.vis, &i.ident)
        }
        Item::Fn(i) => {
            trim(&mut i.attrs);
            i.block.stmts.clear();
            (&i.vis, &i.sig.ident)
        }
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// The type that an impl is for.
fn implementor(item: &ItemImpl) -> Option<String> {
    match &*item.self_ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// What is public of an impl; `None` if that is nothing.
fn trim_impl(mut item: ItemImpl) -> Option<Item> {
    trim(&mut item.attrs);
    let of_trait = item.trait_.is_some();
    item.items.retain_mut(|inner| match inner {
        ImplItem::Fn(f) if !of_trait && is_public(&f.vis) => {
            trim(&mut f.attrs);
            f.block.stmts.clear();
            for input in &mut f.sig.inputs {
                match input {
                    FnArg::Receiver(this) if this.reference.is_none() => this.mutability = None,
                    FnArg::Typed(typed) => {
                        if let Pat::Ident(name) = &mut *typed.pat {
                            name.mutability = None;
                        }
                    }
                    FnArg::Receiver(_) => {}
                }
            }
            true
        }
        ImplItem::Const(c) => is_public(&c.vis),
        ImplItem::Type(_) => true,
        _ => false,
    });
    (of_trait || !item.items.is_empty()).then_some(Item::Impl(item))
}

fn text(items: Vec<Item>) -> String {
    let text = prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items });
    text.replace(&format!("{PRIVATE}: ()"), "// private fields")
        .replace("// private fields,", "// private fields")
        .replace(" {}\n", ";\n")
}

/// The public item `name` of the module `module` or of one below it, and what is implemented for it anywhere.
fn entry(sources: &[Source], module: &str, name: &str) -> Vec<Item> {
    let below = |source: &Source| source.module == module || source.module.starts_with(&format!("{module}::"));
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| below(source)) {
        for item in &source.items {
            let mut item = item.clone();
            if public(&mut item).is_some_and(|found| found == name) {
                found.push((source.module.clone(), item));
            }
        }
    }
    let [(home, item)] = &found[..] else { panic!("{module}::{name} is there {} times", found.len()) };
    let mut impls: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for source in sources {
        let names_it = |item: &Item| {
            let Item::Use(item) = item else { return false };
            let mut names = Vec::new();
            leaves(&item.tree, "", &mut names);
            let last = |path: &str| path.rsplit("::").next().map(str::to_string);
            names.iter().any(|(before, leaf)| leaf == name && last(before) == last(home))
        };
        if source.module != *home && !source.items.iter().any(names_it) {
            continue;
        }
        for item in &source.items {
            let Item::Impl(item) = item else { continue };
            if implementor(item).as_deref() == Some(name)
                && let Some(shown) = trim_impl(item.clone())
            {
                // First its own methods, then the traits by name.
                let key = if item.trait_.is_some() { text(vec![shown.clone()]) } else { String::new() };
                impls.entry(key).or_default().push(shown);
            }
        }
    }
    std::iter::once(item.clone()).chain(impls.into_values().flatten()).collect()
}

fn surface() -> String {
    let sources = sources();
    let lib = sources.iter().find(|source| source.module.is_empty()).unwrap();
    let mut entries: BTreeMap<String, String> = BTreeMap::new();
    for item in &lib.items {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                let mut names = Vec::new();
                leaves(&item.tree, "", &mut names);
                for (module, name) in names {
                    assert_ne!(name, "*", "a glob hides what is public");
                    let shown = if module.is_empty() {
                        format!("pub use {name};\n")
                    } else {
                        text(entry(&sources, &module, &name))
                    };
                    entries.insert(name, shown);
                }
            }
            Item::Mod(item) if is_public(&item.vis) && !has_hidden(&item.attrs) => {
                let module = item.ident.to_string();
                let source = sources.iter().find(|source| source.module == module).unwrap();
                for item in &source.items {
                    let mut item = item.clone();
                    if let Some(name) = public(&mut item) {
                        entries.insert(format!("{module}::{name}"), text(vec![item]));
                    }
                }
            }
            other => {
                let name = public(&mut other.clone());
                assert!(name.is_none(), "{name:?}: the root of the crate only exports");
            }
        }
    }
    let mut out = format!("What is public in redleash. Written by: {COMMAND}\n");
    for (name, shown) in entries {
        out.push_str(&format!("\n== {name}\n{shown}"));
    }
    out
}

fn has_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "hidden")
}

#[test]
fn the_surface_is_the_one_that_was_reviewed() {
    let path: PathBuf = root().join("api.txt");
    let now = surface();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    let differs = now.lines().zip(before.lines().chain(std::iter::repeat(""))).position(|(a, b)| a != b);
    let at = differs.unwrap_or(now.lines().count());
    let (is, was) = (now.lines().nth(at).unwrap_or(""), before.lines().nth(at).unwrap_or(""));
    assert!(
        now == before,
        "the public API is not that of api.txt, first at line {}:\n  api.txt: {was}\n  source:  {is}\n\
         If this is meant, write the file anew, review the difference, and name it in CHANGELOG.md:\n  {COMMAND}",
        at + 1
    );
}

#[test]
fn a_change_is_seen_and_what_is_private_is_not() {
    let parse = |code: &str| syn::parse_str::<Item>(code).unwrap();
    let shown = |code: &str| {
        let mut item = parse(code);
        let name = public(&mut item);
        (name, text(vec![item]))
    };
    let (name, one) = shown("/// Docs.\npub struct A { /// More.\n pub x: u32, y: u32 }");
    assert_eq!(
        (name.as_deref(), one.contains("pub x: u32"), one.contains("y: u32")),
        (Some("A"), true, false),
        "{one}"
    );
    assert!(one.contains("// private fields") && !one.contains("Docs") && !one.contains("More"), "{one}");
    assert_eq!(one, shown("pub struct A { pub x: u32, z: u64 }").1);
    assert_ne!(one, shown("pub struct A { pub x: u64, y: u32 }").1);
    assert_ne!(one, shown("#[non_exhaustive] pub struct A { pub x: u32, y: u32 }").1);
    assert_eq!(shown("pub(crate) struct B;").0, None);
    let methods = |code: &str| {
        let Item::Impl(item) = parse(code) else { panic!("{code}") };
        trim_impl(item).map(|item| text(vec![item]))
    };
    assert_eq!(methods("impl A { fn hidden(&self) {} pub(crate) fn inner(&self) {} }"), None);
    let shown = methods("impl A { pub fn f(mut self, mut n: u8) -> u8 { n } fn hidden() {} }").unwrap();
    assert!(shown.contains("pub fn f(self, n: u8) -> u8;") && !shown.contains("hidden"), "{shown}");
    assert!(methods("impl Drop for A { fn drop(&mut self) {} }").is_some());
}
