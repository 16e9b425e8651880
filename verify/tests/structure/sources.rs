//! What the files of a folder of sources name.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, TypeTraitObject, UseTree};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}

/// One file, without its tests.
pub(crate) struct Source {
    /// Its path below the root of the workspace.
    pub(crate) file: String,
    /// The module that it is; empty for the root of the crate.
    pub(crate) module: Vec<String>,
    /// What it names in its crate, from the crate's root.
    pub(crate) inside: BTreeSet<Vec<String>>,
    /// Every other path that it names.
    pub(crate) outside: BTreeSet<Vec<String>>,
    /// Whether it names the type of a closure that is called through a pointer.
    pub(crate) closures: bool,
}

impl Source {
    /// Reads the text of a file.
    pub(crate) fn parse(file: &str, module: Vec<String>, text: &str) -> Source {
        let syntax = syn::parse_file(text).unwrap_or_else(|e| panic!("{file}: {e}"));
        let mut names = Names { here: module.clone(), found: BTreeSet::new(), closures: false };
        names.visit_file(&syntax);
        let (inside, outside) = names.found.into_iter().partition(|(inside, _)| *inside);
        let paths = |found: BTreeSet<(bool, Vec<String>)>| found.into_iter().map(|(_, path)| path).collect();
        Source { file: file.into(), module, inside: paths(inside), outside: paths(outside), closures: names.closures }
    }
}

/// The files of a folder, but for tests and further programs.
pub(crate) fn read(folder: &str) -> Vec<Source> {
    let (base, mut found) = (root().join(folder), Vec::new());
    let mut open = vec![base.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension() == Some("rs".as_ref()) {
            let below = path.strip_prefix(&base).unwrap().with_extension("");
            let mut module: Vec<String> = below.iter().map(|part| part.to_str().unwrap().to_string()).collect();
            if module.iter().any(|part| part == "tests") || module[0] == "bin" {
                continue;
            }
            module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
            found.push(Source::parse(file, module, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

/// Collects paths: `true` with those of the own crate, from its root.
struct Names {
    here: Vec<String>,
    found: BTreeSet<(bool, Vec<String>)>,
    closures: bool,
}

impl Names {
    fn name(&mut self, path: &[String]) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (base, rest) = match path[0].as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&self.here[..], &path[1..]),
            _ if ups > 0 => (&self.here[..self.here.len().saturating_sub(ups)], &path[ups..]),
            _ => {
                self.found.insert((false, path.to_vec()));
                return;
            }
        };
        if !rest.is_empty() {
            self.found.insert((true, [base, rest].concat()));
        }
    }

    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(before, item)),
            UseTree::Name(name) => self.name(&with(&name.ident)),
            UseTree::Rename(rename) => self.name(&with(&rename.ident)),
            UseTree::Glob(_) => self.name(before),
        }
    }

    /// The paths in the arguments of a macro, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens.into_iter().map(Some).chain([None]) {
            match token {
                Some(TokenTree::Ident(ident)) if path.is_empty() || colons == 2 => path.push(ident.to_string()),
                Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                other => {
                    if path.len() > 1 {
                        self.name(&path);
                    }
                    path.clear();
                    match other {
                        Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
                        Some(TokenTree::Group(group)) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
    }
}

/// The tokens with the paths that stand in strings as paths.
fn unquoted(tokens: TokenStream) -> TokenStream {
    let unquote = |token| match token {
        TokenTree::Group(group) => unquoted(group.stream()),
        TokenTree::Literal(literal) => match syn::parse_str::<syn::LitStr>(&literal.to_string()) {
            Ok(text) if text.value().contains("::") => text.value().parse().unwrap_or_default(),
            _ => TokenStream::new(),
        },
        other => TokenStream::from_iter([other]),
    };
    tokens.into_iter().flat_map(unquote).collect()
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test =
        |a: &Attribute| a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|cfg| cfg == "test");
    attributes.iter().any(is_test)
}

impl<'a> Visit<'a> for Names {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if module.content.is_some() {
            self.here.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 {
            self.name(&parts);
        }
        visit::visit_path(self, path);
    }

    /// `#[serde(with = "crate::a::b")]` names a module too.
    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(unquoted(list.tokens.clone()));
        }
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_type_trait_object(&mut self, object: &'a TypeTraitObject) {
        self.closures |= object.bounds.iter().any(|bound| {
            let syn::TypeParamBound::Trait(bound) = bound else { return false };
            bound.path.segments.last().is_some_and(|last| ["Fn", "FnMut", "FnOnce"].iter().any(|f| last.ident == f))
        });
        visit::visit_type_trait_object(self, object);
    }
}

/// Files that import each other, by one another.
pub(crate) struct Circle {
    /// Their modules.
    pub(crate) files: Vec<String>,
    /// What ties them, one line each.
    pub(crate) arrows: Vec<String>,
}

/// Which files each file imports: a path is an import of the longest part of it that is a file. A parent's look at its
/// children's names and theirs at its are the tree of modules, no imports.
fn imports(sources: &[Source]) -> BTreeMap<&[String], BTreeSet<&[String]>> {
    let files: BTreeSet<&[String]> = sources.iter().map(|source| &source.module[..]).collect();
    let import = |module: &[String], path: &[String]| {
        let target = (1..=path.len()).rev().find_map(|n| files.get(&path[..n]).copied())?;
        (!target.starts_with(module) && !module.starts_with(target)).then_some(target)
    };
    let imports = |source: &Source| source.inside.iter().filter_map(|path| import(&source.module, path)).collect();
    sources.iter().map(|source| (&source.module[..], imports(source))).collect()
}

/// All files that one file imports, by one another.
fn reached<'a>(imports: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>, from: &'a [String]) -> BTreeSet<&'a [String]> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        open.extend(imports[file].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

/// The circles.
pub(crate) fn circles(sources: &[Source]) -> Vec<Circle> {
    let imports = imports(sources);
    let reach: BTreeMap<&[String], BTreeSet<&[String]>> =
        imports.keys().map(|file| (*file, reached(&imports, file))).collect();
    let mut found: BTreeSet<Vec<&[String]>> = BTreeSet::new();
    for (file, reached) in &reach {
        if reached.contains(file) {
            found.insert(reached.iter().copied().filter(|other| reach[other].contains(file)).collect());
        }
    }
    let name = |file: &[String]| file.join("::");
    let arrows = |circle: &[&[String]]| {
        let arrow = |from: &[String]| {
            let ties = imports[from].iter().filter(|to| circle.contains(to)).map(|to| name(to));
            format!("    {} -> {}", name(from), ties.collect::<Vec<_>>().join(", "))
        };
        circle.iter().map(|from| arrow(from)).collect()
    };
    found.iter().map(|c| Circle { files: c.iter().map(|f| name(f)).collect(), arrows: arrows(c) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let module = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(String::from).collect();
        files.iter().map(|(name, text)| Source::parse(name, module(name), text)).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        circles(&sources(files)).iter().map(|circle| circle.files.join(" ")).collect()
    }

    #[test]
    fn a_circle_is_found_whatever_ties_it() {
        let ties = [
            "use crate::a::A;",
            "use super::a::A;",
            "use crate::{x, a::{A, B as C}};",
            "fn f() -> crate::a::A { todo!() }",
            "fn f() { super::a::f() }",
            "fn f() { println!(\"{}\", vec![crate::a::f(1)]) }",
            "mod inner { use super::super::a; }",
            "#[cfg_attr(feature = \"x\", serde(with = \"crate::a::text\"))] struct S;",
            "struct S { #[serde(with = \"crate::a\")] field: u8 }",
            "impl Drop for X { fn drop(&mut self) { if let crate::a::A::B { .. } = self.0 {} } }",
        ];
        for tie in ties {
            let files = [("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", tie), ("c", "use crate::{a, b};")];
            assert_eq!(found(&files), ["a b"], "{tie}");
        }
        let three = [("a", "use crate::b;"), ("b", "use super::c;"), ("c", "use crate::a::A;"), ("d", "use crate::a;")];
        assert_eq!(found(&three), ["a b c"]);
    }

    #[test]
    fn what_is_no_import_ties_nothing() {
        let ties = [
            "// use crate::a::A;\n/// [`crate::a`]\nfn f() {}",
            "fn f() { let _ = \"crate::a\"; }",
            "#[cfg(test)] mod tests { use crate::a::A; }",
            "#[cfg(test)] use crate::a::A;",
            "use crate::A;",
            "use other::a::A;",
        ];
        for tie in ties {
            assert!(found(&[("", "pub use a::A;"), ("a", "use crate::b::B;"), ("b", tie)]).is_empty(), "{tie}");
        }
        assert!(found(&[("x", "use x::y::Y; pub use self::y::Z;"), ("x::y", "use super::X;")]).is_empty());
    }
}
