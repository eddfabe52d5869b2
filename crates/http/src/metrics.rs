//! Metrics as Prometheus reads them: in OpenMetrics 1.0 for clients that ask for it, and
//! otherwise in the older text format 0.0.4, which every client reads.
//!
//! The two differ in the families of counters: OpenMetrics describes `weft_drops`, whose
//! samples are `weft_drops_total`; the text format describes `weft_drops_total`.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Version 0.0.4 of the text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Version 1.0.0 of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label: its name and its value.
pub type Label<'s> = (&'static str, &'s str);

/// Writes families of metrics from within a
/// [`Collector`](prometheus_client::collector::Collector).
#[derive(Debug)]
pub struct Families<'e>(DescriptorEncoder<'e>);

impl<'e> Families<'e> {
    /// Writes to what a collector is given.
    pub fn new(encoder: DescriptorEncoder<'e>) -> Families<'e> {
        Families(encoder)
    }

    /// Writes a counter: each sample has labels and a value. The samples are called
    /// `NAME_total`.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn counter<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(name, help, samples, ConstCounter::new(0_u64), ConstCounter::new)
    }

    /// Writes a gauge: each sample has labels and a value.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn gauge<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(name, help, samples, ConstGauge::new(0_u64), ConstGauge::new)
    }

    /// Writes a gauge of shares, from 0 to 1: each sample has labels and a value.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn ratio<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        self.family(name, help, samples, ConstGauge::new(0.0), ConstGauge::new)
    }

    /// Writes a histogram: each sample has labels and a [`Distribution`].
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn histogram<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, Distribution)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, Distribution { sum, buckets }) in samples {
            let count = buckets.iter().map(|(_, count)| count).sum();
            let mut sample = family.encode_family(&labels)?;
            sample.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn family<L: EncodeLabelSet, N, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, N)>,
        none: M,
        metric: impl Fn(N) -> M,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, none.metric_type())?;
        for (labels, value) in samples {
            // Without labels there is one sample, and no braces behind its name.
            if size_of::<L>() == 0 {
                return metric(value).encode(family);
            }
            metric(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// What a histogram shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The sum of all values.
    pub sum: f64,
    /// Upper bounds, the last one infinite, and the number of values up to each and above
    /// the one before.
    pub buckets: Vec<(f64, u64)>,
}

impl Distribution {
    /// Of counts between bounds; the last count is of values above all bounds.
    pub fn new(sum: f64, bounds: impl IntoIterator<Item = f64>, counts: &[u64]) -> Distribution {
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        Distribution { sum, buckets: bounds.zip(counts.iter().copied()).collect() }
    }
}

/// Labels of a sample that has none of its own.
pub const NO_LABELS: [Label<'static>; 0] = [];

/// Answers with what is registered, in the format that the client asks for.
pub fn answer(registry: &Registry, request: &HeaderMap) -> Response {
    let mut written = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut written, registry);
    let (kind, written) = match wants_open_metrics(request) {
        true => (OPEN_METRICS, written),
        false => (TEXT, text_format(&written)),
    };
    ([(CONTENT_TYPE, kind), (VARY, "Accept")], written).into_response()
}

/// Whether a client reads OpenMetrics. Those that do say so (RFC 9110 section 12.5.1); a
/// weight of 0 means that they do not.
fn wants_open_metrics(request: &HeaderMap) -> bool {
    let ranges = request.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|kind| kind == "application/openmetrics-text");
        let weight = |part: &str| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
        named && !parts.filter_map(weight).any(|weight| weight <= 0.0)
    })
}

/// The text format of what is written in OpenMetrics: families of counters get the names
/// of their samples, and the mark of the end goes.
fn text_format(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 1024);
    let mut rest = open_metrics;
    while let Some(begin) = next_description(rest) {
        let (samples, described) = rest.split_at(begin);
        out.push_str(samples);
        let (lines, behind) = described.split_at(end_of_description(described));
        let is_counter = lines.lines().last().is_some_and(|line| line.ends_with(" counter"));
        for line in lines.lines().filter(|line| *line != "# EOF") {
            let mut words = line.splitn(4, ' ');
            let suffix = if is_counter { "_total" } else { "" };
            let [_, keyword, name, text] = [(); 4].map(|()| words.next().unwrap_or_default());
            out.extend(["# ", keyword, " ", name, suffix, " ", text, "\n"]);
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Where the next lines begin that describe a family. Values of labels hold no line break,
/// so a `#` behind one is such a line.
fn next_description(text: &str) -> Option<usize> {
    if text.starts_with('#') { Some(0) } else { text.find("\n#").map(|at| at + 1) }
}

/// The length of the lines that describe one family, with which `text` begins: HELP and
/// TYPE, of which TYPE is the last.
fn end_of_description(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if !line.starts_with("# HELP ") {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;

    use super::*;

    #[derive(Debug)]
    struct Sample(&'static str);

    impl Collector for Sample {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut families = Families::new(encoder);
            families.counter("drops", "Drops.", [([("port", self.0)], 7), ([("port", "b")], 8)])?;
            families.gauge("users", "Users.", [(NO_LABELS, 3)])?;
            let delays = Distribution::new(0.5, [0.1, 1.0], &[2, 1, 0]);
            families.histogram("delay_seconds", "Delays.", [([("port", self.0)], delays)])?;
            families.counter::<[Label<'_>; 1]>("none", "Nothing yet.", [])
        }
    }

    fn registry(port: &'static str) -> Registry {
        let mut registry = Registry::with_labels([("node".into(), "n".into())].into_iter());
        registry.register_collector(Box::new(Sample(port)));
        registry
    }

    fn written(registry: &Registry) -> String {
        let mut text = String::new();
        text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_text_format_describes_counters_by_the_names_of_their_samples() {
        let open_metrics = written(&registry("a"));
        assert!(open_metrics.contains("# TYPE drops counter\n"), "{open_metrics}");
        assert!(open_metrics.ends_with("# EOF\n"));
        assert_eq!(
            text_format(&open_metrics),
            "# HELP drops_total Drops.\n\
             # TYPE drops_total counter\n\
             drops_total{node=\"n\",port=\"a\"} 7\n\
             drops_total{node=\"n\",port=\"b\"} 8\n\
             # HELP users Users.\n\
             # TYPE users gauge\n\
             users{node=\"n\"} 3\n\
             # HELP delay_seconds Delays.\n\
             # TYPE delay_seconds histogram\n\
             delay_seconds_sum{node=\"n\",port=\"a\"} 0.5\n\
             delay_seconds_count{node=\"n\",port=\"a\"} 3\n\
             delay_seconds_bucket{node=\"n\",le=\"0.1\",port=\"a\"} 2\n\
             delay_seconds_bucket{node=\"n\",le=\"1.0\",port=\"a\"} 3\n\
             delay_seconds_bucket{node=\"n\",le=\"+Inf\",port=\"a\"} 3\n\
             # HELP none_total Nothing yet.\n\
             # TYPE none_total counter\n"
        );
    }

    #[test]
    fn names_are_escaped() {
        let text = text_format(&written(&registry("a\"\\\n# TYPE x")));
        assert!(text.contains(r#"port="a\"\\\n# TYPE x"} 7"#), "{text}");
    }

    #[test]
    fn clients_that_ask_for_open_metrics_get_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5";
        for (accept, kind) in [
            (prometheus, OPEN_METRICS),
            ("text/plain", TEXT),
            ("*/*", TEXT),
            ("application/openmetrics-text; q=0, */*", TEXT),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let answer = answer(&registry("a"), &headers);
            assert_eq!(answer.headers()[CONTENT_TYPE], kind, "{accept}");
        }
        assert_eq!(answer(&registry("a"), &HeaderMap::new()).headers()[CONTENT_TYPE], TEXT);
    }
}
