//! Decimal numbers in PostgreSQL's binary form: groups of four digits.

/// `text` is digits with at most one point and a sign before them.
pub(super) fn to_binary(text: &str) -> Vec<u8> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = fraction.len();
    let pad = |digits: usize| (4 - digits % 4) % 4;
    let padded =
        format!("{}{whole}{fraction}{}", "0".repeat(pad(whole.len())), "0".repeat(pad(scale)));
    let mut groups: Vec<i16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| {
            group.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit.saturating_sub(b'0')))
        })
        .collect();
    let mut weight = i16::try_from(whole.len().div_ceil(4)).unwrap_or(i16::MAX) - 1;
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    let sign: i16 = if negative && !groups.is_empty() { 0x4000 } else { 0 };
    let head = [
        i16::try_from(groups.len()).unwrap_or(i16::MAX),
        weight,
        sign,
        i16::try_from(scale).unwrap_or(i16::MAX),
    ];
    head.into_iter().chain(groups).flat_map(i16::to_be_bytes).collect()
}

/// The same back, for parameters; `None`: not a finite number.
pub(super) fn from_binary(bytes: &[u8]) -> Option<String> {
    let mut numbers = bytes.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let (count, weight, sign, scale) =
        (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?);
    let groups: Vec<i16> = numbers.collect();
    let sane = groups.len() == usize::try_from(count).ok()?
        && groups.iter().all(|group| (0..10_000).contains(group))
        && (-64..=64).contains(&weight)
        && (0..=1_000).contains(&scale)
        && matches!(sign, 0 | 0x4000);
    if !sane {
        return None;
    }
    let group = |place: i16| {
        let index = usize::try_from(weight - place).ok();
        index.and_then(|index| groups.get(index)).copied().unwrap_or(0)
    };
    let mut text = if sign == 0 { String::new() } else { "-".to_owned() };
    let whole: String =
        (0..=weight.max(0)).rev().map(|place| format!("{:04}", group(place))).collect();
    let trimmed = whole.trim_start_matches('0');
    text.push_str(if trimmed.is_empty() { "0" } else { trimmed });
    if scale > 0 {
        let groups = (1..=(scale + 3) / 4).map(|place| format!("{:04}", group(-place)));
        let fraction: String = groups.collect();
        text.push('.');
        text.push_str(fraction.get(..usize::try_from(scale).ok()?)?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in
            ["0", "1", "-1", "10000", "12345.678", "-0.0001", "0.50", "99999999.9999", "100000000"]
        {
            assert_eq!(from_binary(&to_binary(text)).as_deref(), Some(text));
        }
        assert_eq!(to_binary("12345.67"), [0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 9, 41, 26, 44]);
        assert_eq!(from_binary(&[0, 1]), None);
    }
}
