//! Filters of packet detection rules, their own and those of applications.

use weft_functions::session::rules::Name;
use weft_functions::session::rules::filter::{Masked, SdfFilter};

use super::Draft;
use super::flow;
use crate::codec::Cause;
use crate::codec::element::{self, Text};
use crate::codec::ie::*;
use crate::refusal::Refusal;

impl Draft<'_> {
    /// The filters of an application beside those of the PDR.
    pub(super) fn add_application(
        &self,
        application: &Name,
        filters: &mut Vec<SdfFilter>,
    ) -> Result<(), Refusal> {
        match self.node.applications.get(&**application) {
            Some(known) => filters.extend(known.iter().cloned()),
            None if self.node.interfaces.has_application(application) => {}
            None => {
                return Err(Refusal {
                    offending: Some(APPLICATION_ID),
                    ..Refusal::cause(Cause::UNKNOWN_APPLICATION)
                });
            }
        }
        Ok(())
    }

    /// Gives PDRs the filters that their applications have now. An application that has none any
    /// more leaves them those that it had, as a PDR without filters matches everything.
    pub fn filter_anew(&mut self) {
        for extras in &self.extras.pdrs {
            let known = extras.traits.application.as_deref();
            let known = known.and_then(|application| self.node.applications.get(application));
            let pdr = self.rules.pdrs.iter_mut().find(|pdr| pdr.id == extras.id);
            if let (Some(known), Some(pdr)) = (known, pdr) {
                pdr.filters = extras.filters.iter().chain(known).cloned().collect();
            }
        }
    }

    /// A filter; one that is only a number is the filter that has it.
    pub(super) fn filter(&mut self, filter: &element::SdfFilter<'_>) -> Result<SdfFilter, Refusal> {
        let element::SdfFilter { description, traffic_class, spi, flow_label, id } = *filter;
        let is_reference = description.is_none()
            && traffic_class.is_none()
            && spi.is_none()
            && flow_label.is_none();
        if is_reference {
            let known = self.extras.filters.iter().find(|(known, _)| Some(*known) == id);
            return known.map(|(_, filter)| filter.clone()).ok_or(Refusal::incorrect(SDF_FILTER));
        }
        let read = |text: Text<'_>| {
            let text = std::str::from_utf8(text.0).ok();
            text.and_then(flow::parse).ok_or(Refusal::incorrect(SDF_FILTER))
        };
        let filter = SdfFilter {
            flow: description.map(read).transpose()?,
            tos: traffic_class.map(|(value, mask)| Masked { value, mask }),
            spi,
            flow_label,
            domain: None,
        };
        if let Some(id) = id {
            self.extras.filters.retain(|(known, _)| *known != id);
            self.extras.filters.push((id, filter.clone()));
        }
        Ok(filter)
    }
}
