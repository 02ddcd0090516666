//! Recognizes lines that surround the output of a program: prompts and messages of terminals, and the error
//! stream.

/// Starts of lines that programs of infiniband-diags and their libraries write to the error stream, and of
/// lines that terminal programs write into logs.
const STARTS: [&str; 23] = [
    "ibwarn:",
    "ibpanic:",
    "iberror:",
    "ibdebug:",
    "ibnetdiscover:",
    "iblinkinfo:",
    "ibdiagnet:",
    "dump_fts:",
    "src/",
    "libibmad",
    "libibumad",
    "mad_rpc",
    "umad",
    "can't open UMAD",
    "sudo:",
    "[sudo]",
    "Script started",
    "Script done",
    "Last login:",
    "login as:",
    "=~=~",
    "Shared connection to ",
    "spawn ssh ",
];
/// Names of programs that a command after a prompt contains if the line is skipped.
const PROGRAMS: [&str; 7] =
    ["ibnetdiscover", "iblinkinfo", "ibdiagnet", "saquery", "dump_fts", "dump_lfts.sh", "ibroute"];
/// Commands that end a session.
const ENDS: [&str; 3] = ["logout", "exit", "quit"];
/// The longest line that can be a prompt without a command.
const LONGEST_PROMPT: usize = 80;

/// Whether a line comes from a terminal or an error stream: a message, a prompt, or the header of a log.
pub(super) fn is_noise(line: &str) -> bool {
    let plain = without_escapes(line);
    // What follows a carriage return replaces what is before it on the screen.
    let line = plain.trim().rsplit('\r').next().unwrap_or_default().trim();
    if STARTS.iter().any(|start| line.starts_with(start)) || ENDS.contains(&line) {
        return true;
    }
    if line.starts_with("Connection to ") && (line.ends_with("closed.") || line.contains("closed by")) {
        return true;
    }
    is_prompt(line)
}

/// Whether a line is a prompt, with or without a command.
fn is_prompt(line: &str) -> bool {
    let line = without_environment(line);
    let Some(end) = line.find(['$', '#', '>', '%']) else { return false };
    let (before, command) = (line[..end].trim_end(), line[end + 1..].trim_start());
    if before.contains('"') {
        return false;
    }
    if before.is_empty() {
        // A comment starts with `#`.
        return !line.starts_with('#') && line.len() > 1 && line[1..].starts_with(' ')
            || line == "$"
            || line == ">";
    }
    if command.is_empty() && line.len() <= LONGEST_PROMPT && is_short(before) {
        return true;
    }
    let program = command.trim_start_matches("sudo ").split([' ', '/']).rfind(|word| PROGRAMS.contains(word));
    let names_program = before.split_whitespace().count() <= 2 && program.is_some();
    names_program || is_user(before) || is_shell(before) || is_path(before) || is_appliance(before)
}

/// Removes the name of a Python environment, such as `(venv) `.
fn without_environment(line: &str) -> &str {
    let rest = line.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    rest.filter(|(name, _)| is_name(name)).map_or(line, |(_, rest)| rest)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// The text before the sign of a prompt that has no command: words without the separators of tables.
fn is_short(before: &str) -> bool {
    let words = before.split_whitespace().count();
    words <= 6
        && !before.contains([',', ';', '=', '{', '|'])
        && !before.starts_with(|c: char| c.is_ascii_digit())
}

/// `[root@node ~]` or `user@node:~`.
fn is_user(before: &str) -> bool {
    let inside = before.trim_start_matches(['[', '(']);
    inside.split_once('@').is_some_and(|(user, _)| is_name(user))
}

/// `sh-4.2`, or `[host ~]`.
fn is_shell(before: &str) -> bool {
    let version = |(shell, version): (&str, &str)| {
        shell.ends_with("sh") && is_name(shell) && version.starts_with(|c: char| c.is_ascii_digit())
    };
    let inside = before.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let place = |(host, folder): (&str, &str)| is_name(host) && folder.starts_with(['~', '/']);
    before.split_once('-').is_some_and(version)
        || inside.and_then(|inside| inside.split_once(' ')).is_some_and(place)
}

/// `host:~` or `host:/opt`.
fn is_path(before: &str) -> bool {
    before.split_once(':').is_some_and(|(host, folder)| is_name(host) && folder.starts_with(['~', '/']))
}

/// `NAME [standalone: master] (config)` of a switch or manager, without or with a mode.
fn is_appliance(before: &str) -> bool {
    let Some((name, rest)) = before.split_once(" [") else {
        return before
            .strip_suffix(')')
            .and_then(|rest| rest.split_once(" ("))
            .is_some_and(|(name, _)| is_name(name));
    };
    let Some((_, mode)) = rest.split_once(']') else { return false };
    let mode = mode.trim();
    is_name(name) && (mode.is_empty() || (mode.starts_with('(') && mode.ends_with(')')))
}

/// Removes the escape sequences of terminals (ECMA-48: ESC, `[`, parameters, a letter; or ESC, `]`, text,
/// BEL).
fn without_escapes(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = match after.chars().next() {
            Some('[') => after.trim_start_matches('[').trim_start_matches(|c: char| !c.is_ascii_alphabetic()),
            Some(']') => after.find('\u{7}').map_or("", |end| &after[end..]),
            _ => after,
        };
        let skipped = rest.chars().next().map_or(0, char::len_utf8);
        rest = &rest[skipped..];
    }
    plain.push_str(rest);
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_recognized_by_their_shape() {
        for line in [
            "sw-1 [standalone: master] (config) #",
            "sw-1 [standalone: master] (config) # show fabric",
            "ufm-1 [ mgmt-ha-active ] (config) #",
            "ufm-1 [ mgmt-ha-active ] > ib ibnetdiscover",
            "n01:~ #",
            "n01:~ # cd /tmp",
            "n01:/opt/data$ ls",
            "sh-4.2#",
            "bash-5.1$ ls",
            "[n01 ~]$",
            "[n01 /tmp]# ls",
            "(venv) user@n01:~$",
            "[root@node-17 ~]#",
            "user@node:~/x$ sudo ibnetdiscover 2>&1",
            "ufm-host > ibnetdiscover",
            "switch-7 (config) # exit",
            "switch-7 >",
            "$ ibnetdiscover",
            "logout",
            "exit",
            "Connection to n01 closed.",
            "Connection to n01 closed by remote host.",
            "\rsw-1 [standalone: master] (config) #",
            "progress 10%\r[n01 ~]$",
            "\u{1b}[?2004hroot@node:/#",
        ] {
            assert!(is_noise(line), "{line}");
        }
    }

    #[test]
    fn rows_of_files_are_no_noise() {
        for line in [
            "",
            "#",
            "# a comment that ends in #",
            "#in out : 0 1 2",
            "Switch\t8 \"S-00a0\"\t\t# \"swA\" base port 0 lid 2 lmc 0",
            "[1]\t\"H-0b00\"[1](b01) \t\t# \"node-0\" lid 3 4xQDR",
            "[1]\t\"H-0b00\"[1](b01) \t\t#",
            "0x0001 001 # Channel Adapter portguid 0x0000000000001100: 'n1 mlx5_0'",
            "0x0001 001 : (Channel Adapter portguid 0x0000000000001100: 'a$')",
            "0x0001 : 001  : 02   : yes",
            "1   2   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7",
            "0xa0,1,2,0,2,4,0",
            "5 H1 H2 #",
            "0 3 100Gbps 1000ns 0.000000 # a link",
            "Nodes 4 # hosts",
            "vendid=0x2c9 #",
            "0->3 id 1 start 0 size 2000000",
            "hello",
            "[root]",
            "some text > here",
        ] {
            assert!(!is_noise(line), "{line}");
        }
    }
}
