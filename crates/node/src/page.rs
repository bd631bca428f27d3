//! Reads back what the worker has recorded, so that `/status` and `/metrics` cannot disagree.

/// Sums the samples of `name` that carry the label `label="value"`.
pub(crate) fn sum(page: &str, name: &str, label: &str, value: &str) -> u64 {
    let wanted = format!("{label}=\"{value}\"");
    let samples = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let matching = samples.filter_map(|sample| sample.rsplit_once("} "));
    matching
        .filter(|(labels, _)| labels.split(',').any(|label| label == wanted))
        .filter_map(|(_, number)| number.parse::<f64>().ok())
        .sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_of_the_name_and_label_are_summed() {
        let page = "# TYPE a_total counter\n\
            a_total{bucket=\"x\",tier=\"ram\"} 3\n\
            a_total{bucket=\"y\",tier=\"ram\"} 4\n\
            a_total{bucket=\"y\",tier=\"nvme\"} 50\n\
            a_total_more{tier=\"ram\"} 600\n\
            a_total 7000\n";
        assert_eq!(sum(page, "a_total", "tier", "ram"), 7);
        assert_eq!(sum(page, "a_total", "tier", "origin"), 0);
    }
}
