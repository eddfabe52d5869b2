//! How two texts differ, line by line.

/// Lines around a difference that are shown.
const AROUND: usize = 2;
/// Lines beyond which texts are shown whole: the table below has the square of that.
const MOST: usize = 4000;

/// The lines of `new` and `old`, with `+`, `-` or a blank before each, near differences.
pub fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[same..], &new[same..]);
    let mut lines: Vec<(char, &str)> = old[..same].iter().map(|line| (' ', *line)).collect();
    lines.extend(compared(old_rest, new_rest));
    let is_near = |at: usize| {
        let near = &lines[at.saturating_sub(AROUND)..lines.len().min(at + AROUND + 1)];
        near.iter().any(|(mark, _)| *mark != ' ')
    };
    let (mut out, mut last) = (String::new(), None);
    for (at, (mark, line)) in lines.iter().enumerate().filter(|(at, _)| is_near(*at)) {
        if last.is_some_and(|last| last + 1 != at) {
            out.push_str("  ...\n");
        }
        out.push_str(&format!("{mark} {line}\n"));
        last = Some(at);
    }
    out
}

/// By the longest common subsequence.
fn compared<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let (mut lines, mut i, mut j) = (Vec::new(), 0, 0);
    if old.len() <= MOST && new.len() <= MOST {
        let width = new.len() + 1;
        let mut common = vec![0_u16; (old.len() + 1) * width];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = match old[i] == new[j] {
                    true => common[(i + 1) * width + j + 1] + 1,
                    false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
                };
            }
        }
        while i < old.len() && j < new.len() {
            if old[i] == new[j] {
                lines.push((' ', old[i]));
                (i, j) = (i + 1, j + 1);
            } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
                lines.push(('-', old[i]));
                i += 1;
            } else {
                lines.push(('+', new[j]));
                j += 1;
            }
        }
    }
    lines.extend(old[i..].iter().map(|line| ('-', *line)));
    lines.extend(new[j..].iter().map(|line| ('+', *line)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_marked() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nx\ne\nf\ng\nh\ni\n";
        assert_eq!(difference(old, new), "  b\n  c\n- d\n+ x\n  e\n  f\n  g\n  h\n+ i\n");
        assert_eq!(difference("a\n", "a\n"), "");
        assert_eq!(difference("", "a\nb\n"), "+ a\n+ b\n");
        let long: String = (0..10).map(|nth| format!("{nth}\n")).collect();
        let other = long.replace("1\n", "one\n").replace("8\n", "eight\n");
        assert!(difference(&long, &other).contains("  ...\n"));
    }
}
