//! The manual page of a header: what its comments say, in the language of `man`.

/// A comment, and what it is about.
struct Entry {
    /// Lines without the stars.
    comment: Vec<String>,
    /// Lines of the declaration.
    declaration: Vec<String>,
}

/// The page `pinnace.h(3)` of the header's text.
pub(crate) fn page(header: &str, version: &str) -> String {
    let lines: Vec<&str> = header.lines().collect();
    let end = lines.iter().position(|line| line.ends_with("*/")).expect("a comment at the beginning");
    let overview: Vec<String> = lines[1..end].iter().map(|line| uncommented(line)).collect();
    let entries = entries(&lines[end + 1..]);
    let (functions, others): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| name_of_function(entry).is_some());

    let mut page = format!(
        ".\\\" Made from crates/bindings/c/include/pinnace.h. Do not edit.\n.TH PINNACE.H 3 \"\" \"Pinnace {version}\" \"Pinnace\"\n"
    );
    page.push_str(".SH NAME\npinnace.h \\- messages between programs: declare the service, get the transport\n");
    page.push_str(".SH SYNOPSIS\n.nf\n#include <pinnace.h>\n\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs pinnace)\n.fi\n");
    page.push_str(".SH DESCRIPTION\n");
    write_text(&mut page, &overview);
    page.push_str(".SH TYPES\n");
    for entry in &others {
        write_text(&mut page, &entry.comment);
        write_code(&mut page, &entry.declaration);
        page.push_str(".PP\n");
    }
    page.push_str(".SH FUNCTIONS\n");
    for entry in &functions {
        page.push_str(&format!(".SS {}\n", name_of_function(entry).unwrap_or_default()));
        write_code(&mut page, &entry.declaration);
        page.push_str(".PP\n");
        write_text(&mut page, &entry.comment);
    }
    page.push_str(".SH SEE ALSO\n.BR pinnace (1),\n.BR poll (2)\n");
    page
}

/// A line of a comment, without its star.
fn uncommented(line: &str) -> String {
    let line = line.trim_start();
    let line = line.strip_prefix("/**").or_else(|| line.strip_prefix('*')).unwrap_or(line);
    let line = line.strip_suffix("*/").unwrap_or(line);
    line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
}

/// All comments that begin in the first column, with their declarations.
fn entries(lines: &[&str]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].starts_with("/**") {
            at += 1;
            continue;
        }
        let begin = at;
        while !lines[at].ends_with("*/") {
            at += 1;
        }
        let comment = lines[begin..=at].iter().map(|line| uncommented(line)).filter(|line| !line.starts_with('/'));
        let comment: Vec<String> = comment.collect();
        at += 1;
        let begin = at;
        // To the end of a structure, of a function, or of a macro.
        let is_structure = lines[at].ends_with('{');
        while !(lines[at].starts_with("#define") || lines[at] == "};" || !is_structure && lines[at].ends_with(';')) {
            at += 1;
        }
        at += 1;
        entries.push(Entry { comment, declaration: lines[begin..at].iter().map(|line| (*line).to_owned()).collect() });
    }
    entries
}

fn name_of_function(entry: &Entry) -> Option<&str> {
    let first = entry.declaration.first().filter(|line| !line.starts_with('#'))?;
    first.split_once('(')?.0.rsplit([' ', '*']).next()
}

fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// Paragraphs; what is indented stays as it is.
fn write_text(page: &mut String, lines: &[String]) {
    let mut is_code = false;
    for line in lines {
        let indented = line.starts_with("  ");
        if indented != is_code && !line.is_empty() {
            page.push_str(if indented { ".nf\n" } else { ".fi\n" });
            is_code = indented;
        }
        match line.is_empty() {
            true if is_code => page.push('\n'),
            true => page.push_str(".PP\n"),
            false => {
                page.push_str(&escaped(line));
                page.push('\n');
            }
        }
    }
    if is_code {
        page.push_str(".fi\n");
    }
}

fn write_code(page: &mut String, lines: &[String]) {
    page.push_str(".nf\n");
    for line in lines {
        page.push_str(&escaped(line));
        page.push('\n');
    }
    page.push_str(".fi\n");
}
