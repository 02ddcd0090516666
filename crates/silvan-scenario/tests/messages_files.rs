//! Checks messages about files with sizes of messages and lists of flows.

use std::path::{Path, PathBuf};

use silvan_scenario::Scenario;

/// The message of a scenario whose traffic names a file with this text.
fn with_file(text: &str, keys: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let name = format!(
        "sources-{:x}.txt",
        text.bytes().fold(7u64, |sum, byte| sum * 31 % 1_000_007 + u64::from(byte))
    );
    let path = folder.join(&name);
    std::fs::write(&path, text).unwrap();
    let keys = keys.replace("FILE", &name);
    let scenario = format!("duration = \"1 ms\"\n[topology]\nkind = \"dumbbell\"\n[[traffic]]\n{keys}\n");
    let built = Scenario::from_toml(&scenario, "a.toml", Path::new(&folder), &[]).and_then(|one| one.build());
    let whole = built.map_or_else(|error| error.to_string(), |_| "fine".to_owned());
    whole.replace(&path.display().to_string(), "FILE").replace(&name, "NAME")
}

#[test]
fn errors_of_distributions_are_explained() {
    let sizes = |text: &str| {
        with_file(
            text,
            "load_percent = 50\nsizes = { kind = \"file\", file = \"FILE\" }\npattern = { kind = \"uniform\" }",
        )
    };
    assert_eq!(sizes("0 0\n10000 15\n30000 100\n"), "fine", "as published with HPCC");
    assert_eq!(sizes("9000 0\n9000 0.15\n\n30000 1"), "fine", "as published with ConWeave");
    assert_eq!(sizes("0 0.0\n2000 0.0\n2100 0.02\n30000 1\n"), "fine", "as published with ns3-datacenter");
    let at = "a.toml:6: traffic.0.sizes.file = \"NAME\": ";
    assert_eq!(
        sizes("10 1 2 3\n"),
        format!(
            "{at}FILE:1: `10 1 2 3` is no point of a distribution; a line has a size (0 to 1073741824 bytes) and a share, such as `10000 0.15`"
        )
    );
    assert_eq!(
        sizes("10 x\n"),
        format!(
            "{at}FILE:1: `10 x` is no point of a distribution; a line has a size (0 to 1073741824 bytes) and a share, such as `10000 0.15`"
        )
    );
    assert_eq!(
        sizes("10 0\n5 1\n"),
        format!("{at}FILE:2: 5 bytes with a share of 100 follow 10 bytes with 0; both must ascend")
    );
    assert_eq!(
        sizes("10 0\n50 99\n"),
        format!("{at}FILE:2: the last share is 99; must be 1 or 100, for all messages")
    );
    assert_eq!(sizes("# nothing\n"), format!("{at}FILE: has no points"));
    assert_eq!(sizes("0 1\n"), format!("{at}FILE:1: the largest size is 0 bytes"));
}

#[test]
fn errors_of_lists_are_explained() {
    let list =
        |text: &str| with_file(text, "pattern = { kind = \"listed\", file = \"FILE\", starts_at = \"2 s\" }");
    assert_eq!(list("2\n0 1 3 100 200000 2\n1 H3 3 100 7 2.5\nthe rest\n"), "fine", "as published with HPCC");
    assert_eq!(list("1\n0 1 3 200000 2\n"), "fine", "without ports");
    assert_eq!(list("from,to,bytes,start_ns,sl\nH1,H2,9,2000000000.5,3\n"), "fine");
    let at = "a.toml:5: traffic.0.pattern.file = \"NAME\": FILE:";
    let cases = [
        ("", " has no transfers"),
        (
            "x\n0 1 3 100 7 2\n",
            "1: `x` is no number of flows; a flow file begins with their number (at most 4000000), a connection matrix with `Nodes` and `Connections`, and CSV with `from,to,bytes,start_ns`",
        ),
        ("2\n0 1 3 100 7 2\n", "1: the first line announces 2 flows, but 1 follow"),
        (
            "1\n0 1 3\n",
            "2: `0 1 3` is no flow; a line has source, destination, priority, port, bytes and start in seconds",
        ),
        ("1\n0 9 3 100 7 2\n", "2: there is no host `9`; use names, or numbers from 0 to 6"),
        ("1\n4 4 3 100 7 2\n", "2: host 4 sends to itself"),
        ("1\n0 1 3 100 0 2\n", "2: `0` is no size; must be 1 to 1099511627776 bytes"),
        ("1\n0 1 16 100 7 2\n", "2: `16` is no service level or priority; must be 0 to 15"),
        ("1\n0 1 3 100 7 2e\n", "2: `2e` is no time; must be a decimal number of seconds"),
        ("1\n0 1 3 100 7 1.5\n", "2: starts at 1.5 s, before pattern.starts_at = 2 s"),
        (
            "from,to,size\n",
            "1: the columns are `from,to,size`; must be from, to, bytes, start_ns and optionally sl",
        ),
        ("from,to,bytes,start_ns\n1,2\n", "2: the line has 2 columns, but the first one has 4"),
    ];
    for (text, expected) in cases {
        assert_eq!(list(text), format!("{at}{expected}"), "{text}");
    }
    let with = |keys: &str| {
        with_file(
            "1\n0 1 3 100 7 2\n",
            &format!("{keys}\npattern = {{ kind = \"listed\", file = \"FILE\" }}"),
        )
    };
    let said = with("message = \"9 B\"");
    assert!(
        said.starts_with("a.toml:5: traffic.0.message = \"9 B\": has no effect: the file determines it"),
        "{said}"
    );
    assert_eq!(
        with("rate = \"1 Gbit/s\""),
        "a.toml:5: traffic.0.rate = \"1 Gbit/s\": cannot be combined with the pattern `listed`"
    );
}
