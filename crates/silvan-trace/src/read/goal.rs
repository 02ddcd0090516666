//! Reads text GOAL as LogGOPSim's `txt2bin` does.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1000
//! l2: send 4b to 1 tag 7 cpu 0 nic 0
//! l2 requires l1
//! }
//! rank 1 {
//! recv 4b from 0 tag 7
//! }
//! ```
//!
//! Times are in nanoseconds. `a requires b` means that `a` may start when `b` has finished, and `a
//! irequires b` means that it may start when `b` has started. Labels are local to their rank, and must be
//! defined before the line that uses them.

use std::collections::HashSet;

use crate::error::{TraceError, clip};
use crate::read::labels::Labels;
use crate::read::source::Source;
use crate::read::{Fault, Options};
use crate::trace::{ANY, COLLECTIVE_TAGS, Kind, Operation, Trace, TraceBuilder, When, scaled};

/// Operations of the Portals dialect of LogGOPSim 2.
const PORTALS: [&str; 14] = [
    "append",
    "put",
    "get",
    "tput",
    "tget",
    "tappend",
    "ct",
    "search",
    "me",
    "atomic",
    "fetchatomic",
    "tatomic",
    "triggered",
    "nic_calc",
];
const KEYWORDS: [&str; 12] =
    ["send", "recv", "calc", "rank", "requires", "irequires", "num_ranks", "to", "from", "tag", "cpu", "nic"];

/// Maximum length of a label, because all labels of a rank are kept while it is read.
const MAX_LABEL: usize = 255;

/// Reads a schedule.
///
/// # Errors
/// If the schedule cannot be read, is invalid, or exceeds `options.limit`. Errors of a line contain its
/// number.
pub fn read(mut source: Source<'_>, options: &Options) -> Result<Trace, TraceError> {
    let mut reader = Reader {
        build: None,
        rank: None,
        seen: HashSet::new(),
        last: None,
        labels: Labels::default(),
        twice: None,
        out_of_order: false,
        any_tag: false,
        high_tag: false,
        options,
    };
    let mut in_comment = false;
    let mut cleaned = String::new();
    let name = source.name.clone();
    loop {
        let number = source.line + 1;
        let Some(line) = source.next_line()? else { break };
        strip_comments(line, &mut in_comment, &mut cleaned);
        let tokens = lex(&cleaned).map_err(|message| TraceError::line(&name, number, message))?;
        reader.line(&tokens).map_err(|fault| fault.at(&name, number))?;
    }
    if in_comment {
        return Err(source.error("the comment that starts with `/*` has no end"));
    }
    if let Some(rank) = reader.rank {
        return Err(source.error(format!("the schedule of rank {rank} has no end: `}}` is missing")));
    }
    reader.finish(&name)
}

/// Copies a line without its comments. `in_comment` states whether the line starts, and then ends, inside a
/// comment.
fn strip_comments(line: &str, in_comment: &mut bool, into: &mut String) {
    into.clear();
    let mut rest = line;
    loop {
        if *in_comment {
            let Some(end) = rest.find("*/") else { return };
            rest = &rest[end + 2..];
            *in_comment = false;
            into.push(' ');
        }
        let start = [rest.find("//"), rest.find("/*")].into_iter().flatten().min();
        let Some(start) = start else { return into.push_str(rest) };
        into.push_str(&rest[..start]);
        if rest[start..].starts_with("//") {
            return;
        }
        rest = &rest[start + 2..];
        *in_comment = true;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Number(u64),
    /// `-1`.
    Any,
    Colon,
    Open,
    Close,
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{}", clip(word)),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Any => write!(f, "`-1`"),
            Self::Colon => write!(f, "`:`"),
            Self::Open => write!(f, "`{{`"),
            Self::Close => write!(f, "`}}`"),
        }
    }
}

fn lex(line: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ':' | '{' | '}' => {
                tokens.push(match first {
                    ':' => Token::Colon,
                    '{' => Token::Open,
                    _ => Token::Close,
                });
                1
            }
            '0'..='9' => {
                let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let digits = &rest[..length];
                let number =
                    digits.parse().map_err(|_| format!("{} is larger than 2^64 - 1", clip(digits)))?;
                tokens.push(Token::Number(number));
                length
            }
            '-' if rest[1..].starts_with('1') && !rest[2..].starts_with(|c: char| c.is_ascii_digit()) => {
                tokens.push(Token::Any);
                2
            }
            'A'..='Z' | 'a'..='z' => {
                let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let length = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(&rest[..length]));
                length
            }
            '-' => {
                return Err("a number must not be negative, except -1 for any source or any tag".to_owned());
            }
            _ => return Err(format!("{} is not valid here", clip(&first.to_string()))),
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Reader<'o> {
    /// `None` until the number of ranks is known.
    build: Option<TraceBuilder>,
    /// The rank whose schedule is being read.
    rank: Option<u32>,
    seen: HashSet<u32>,
    last: Option<u32>,
    labels: Labels,
    /// The first label that was defined twice, with its rank.
    twice: Option<String>,
    out_of_order: bool,
    any_tag: bool,
    high_tag: bool,
    options: &'o Options,
}

impl Reader<'_> {
    fn line(&mut self, tokens: &[Token<'_>]) -> Result<(), Fault> {
        let mut at = Cursor { tokens, next: 0 };
        while !at.is_at_end() {
            self.statement(&mut at)?;
        }
        Ok(())
    }

    fn statement(&mut self, at: &mut Cursor<'_, '_>) -> Result<(), Fault> {
        let Some(build) = &mut self.build else {
            at.word("num_ranks", "a schedule starts with `num_ranks N`")?;
            let ranks = at.number("the number of ranks")?;
            self.build = Some(self.options.large(ranks)?);
            return Ok(());
        };
        let Some(rank) = self.rank else {
            at.word("rank", "the schedule of a rank starts with `rank N {`")?;
            let number = at.number("the rank")?;
            at.expect(Token::Open, "`rank N` is followed by `{`")?;
            let ranks = build.ranks();
            let rank = u32::try_from(number).ok().filter(|&rank| rank < ranks);
            let rank =
                rank.ok_or_else(|| format!("rank {number} is out of range: `num_ranks` is {ranks}"))?;
            self.out_of_order |= self.last.map_or(0, |last| last + 1) != rank;
            self.last = Some(rank);
            if !self.seen.insert(rank) {
                return Err(format!("rank {rank} has a second schedule").into());
            }
            self.rank = Some(rank);
            self.labels.clear();
            return Ok(());
        };
        match at.take("a statement")? {
            Token::Close => {
                self.rank = None;
                Ok(build.close(rank)?)
            }
            Token::Word(word @ ("send" | "recv" | "calc")) if at.peek() != Some(Token::Colon) => {
                self.operation(rank, word, at)?;
                at.end_of_statement()
            }
            Token::Word(word) => self.labeled(rank, word, at),
            other => Err(format!("a statement cannot start with {other}").into()),
        }
    }

    fn labeled(&mut self, rank: u32, word: &str, at: &mut Cursor<'_, '_>) -> Result<(), Fault> {
        let next = at.peek();
        if next == Some(Token::Colon) {
            if KEYWORDS.contains(&word) {
                return Err(format!("`{word}` is a keyword, not a label").into());
            }
            if word.len() > MAX_LABEL {
                return Err(format!("a label has at most {MAX_LABEL} characters, not {}", word.len()).into());
            }
            at.next += 1;
            let Token::Word(operation) = at.take("an operation: send, recv or calc")? else {
                return Err("a label is followed by an operation: send, recv or calc".to_owned().into());
            };
            let made = self.operation(rank, operation, at)?;
            if !self.labels.insert(word, made) {
                self.twice.get_or_insert_with(|| format!("{} of rank {rank}", clip(word)));
            }
            return at.end_of_statement();
        }
        let when = match next {
            Some(Token::Word("requires")) => When::Finish,
            Some(Token::Word("irequires")) => When::Start,
            _ => return Err(unknown(word, at.next < at.tokens.len()).into()),
        };
        at.next += 1;
        let Token::Word(earlier) = at.take("a label")? else {
            return Err("a dependency names a label: `a requires b`".to_owned().into());
        };
        let find = |label: &str| {
            self.labels.get(label).ok_or_else(|| {
                format!("label {} is not defined in rank {rank} before this line", clip(label))
            })
        };
        let (later, earlier) = (find(word)?, find(earlier)?);
        if let Some(build) = &mut self.build {
            build.wait(rank, later, earlier, when)?;
        }
        at.end_of_statement()
    }

    fn operation(&mut self, rank: u32, word: &str, at: &mut Cursor<'_, '_>) -> Result<u32, Fault> {
        let mut operation = match word {
            "calc" => {
                let duration = at.number("a duration in ns")?;
                Operation::calc(scaled(duration, self.options.time_scale))
            }
            "send" | "recv" => self.message(word, at)?,
            _ => return Err(unknown(word, true).into()),
        };
        if at.skip("cpu") {
            operation.cpu = at.small("cpu")?;
        }
        if operation.kind != Kind::Calc && at.skip("nic") {
            operation.nic = at.small("nic")?;
        }
        let Some(build) = &mut self.build else { return Err("`num_ranks` is missing".to_owned().into()) };
        Ok(build.push(rank, operation)?)
    }

    fn message(&mut self, word: &str, at: &mut Cursor<'_, '_>) -> Result<Operation, Fault> {
        let bytes = at.number("a size, as `8b`")?;
        at.word("b", "a size ends with `b`")?;
        let way = if word == "send" { "to" } else { "from" };
        at.word(way, &format!("`{word} {bytes}b` is followed by `{way}`"))?;
        let peer = match at.take("a rank")? {
            Token::Number(number) => u32::try_from(number).ok().filter(|&rank| rank != ANY),
            Token::Any if word == "recv" => Some(ANY),
            other => return Err(format!("{word} {way} {other}: a rank is expected").into()),
        };
        let peer = peer.ok_or("a rank is at most 4294967294".to_owned())?;
        let mut tag = 0;
        if at.skip("tag") {
            tag = match at.take("a tag")? {
                Token::Any if word == "recv" => ANY,
                // The binary form uses 4294967295 for "any", so reject this number.
                Token::Number(number) => {
                    let tag = u32::try_from(number).ok().filter(|&tag| tag != ANY);
                    tag.ok_or("a tag is at most 4294967294".to_owned())?
                }
                other => return Err(format!("tag {other}: a number is expected").into()),
            };
        }
        self.any_tag |= word == "recv" && tag == ANY;
        self.high_tag |= tag >= COLLECTIVE_TAGS && tag != ANY;
        Ok(if word == "send" { Operation::send(peer, bytes, tag) } else { Operation::recv(peer, bytes, tag) })
    }

    fn finish(self, file: &str) -> Result<Trace, TraceError> {
        let Some(mut build) = self.build else {
            return Err(TraceError::new(file, "a schedule starts with `num_ranks N`, which is missing"));
        };
        let ranks = build.ranks();
        if self.out_of_order {
            build.notes.push("ranks are not in the order 0, 1, 2, ...: other tools reject this".to_owned());
        }
        if self.seen.len() < ranks as usize {
            let missing = ranks as usize - self.seen.len();
            build.notes.push(format!("{missing} of {ranks} ranks have no schedule: they do nothing"));
        }
        if let Some(label) = self.twice {
            build.notes.push(format!("label {label} is defined twice: the first definition is used"));
        }
        if self.any_tag && self.high_tag {
            build.notes.push(HIGH_TAGS.to_owned());
        }
        build.finish().map_err(|error| TraceError::new(file, error.to_string()))
    }
}

/// Note for large tags, because they may change the meaning of a file.
pub(super) const HIGH_TAGS: &str =
    "a receive with any tag matches only tags below 2^31: larger tags are used by collective operations";

/// Creates the error message for a word that is not an operation.
fn unknown(word: &str, has_more: bool) -> String {
    if PORTALS.contains(&word) {
        return format!(
            "`{word}` belongs to the Portals dialect of LogGOPSim 2, which is not supported; GOAL has send, recv and calc"
        );
    }
    if has_more {
        return format!(
            "{} is not an operation: GOAL has send, recv and calc, requires and irequires",
            clip(word)
        );
    }
    format!("{} is incomplete: `label: operation` or `a requires b` is expected", clip(word))
}

/// The remaining tokens of a line.
struct Cursor<'c, 't> {
    tokens: &'c [Token<'t>],
    next: usize,
}

impl<'t> Cursor<'_, 't> {
    const fn is_at_end(&self) -> bool {
        self.next >= self.tokens.len()
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self, wanted: &str) -> Result<Token<'t>, String> {
        let token = self.peek().ok_or_else(|| format!("the line ends where {wanted} is expected"))?;
        self.next += 1;
        Ok(token)
    }

    fn expect(&mut self, wanted: Token<'_>, rule: &str) -> Result<(), String> {
        match self.peek() {
            Some(token) if token == wanted => {
                self.next += 1;
                Ok(())
            }
            Some(token) => Err(format!("{rule}, not by {token}")),
            None => Err(format!("{rule}, but the line ends")),
        }
    }

    fn word(&mut self, wanted: &str, rule: &str) -> Result<(), String> {
        match self.peek() {
            Some(Token::Word(word)) if word == wanted => {
                self.next += 1;
                Ok(())
            }
            Some(token) => Err(format!("{rule}, but there is {token}")),
            None => Err(format!("{rule}, but the line ends")),
        }
    }

    fn skip(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(Token::Word(word));
        self.next += usize::from(there);
        there
    }

    fn number(&mut self, wanted: &str) -> Result<u64, String> {
        match self.take(wanted)? {
            Token::Number(number) => Ok(number),
            other => Err(format!("found {other} where {wanted} is expected")),
        }
    }

    fn small(&mut self, what: &str) -> Result<u8, String> {
        let number = self.number(&format!("the number of a {what}"))?;
        u8::try_from(number).map_err(|_| format!("{what} {number} is larger than 255"))
    }

    /// A statement ends at the end of its line, or at the end of the schedule.
    fn end_of_statement(&self) -> Result<(), Fault> {
        match self.peek() {
            None | Some(Token::Close) => Ok(()),
            Some(other) => {
                let order = "only one statement per line is allowed, with tag, cpu and nic in this order";
                Err(format!("{other} is unexpected: {order}").into())
            }
        }
    }
}
