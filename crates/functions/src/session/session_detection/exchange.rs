//! What a session tells: answers to the agent, and its state as bytes.

use std::sync::Arc;

use weft_function::{ContextError, Fields};

use super::context::Context;
use super::meter::Meter;
use super::record::{Limiter, Names, Record};
use super::time_of_day::TimeOfDay;
use crate::common::export::{read_option, write_option};
use crate::session::check;
use crate::session::rules::{Session, Trigger, Triggers, UrrId};
use crate::session::usage::{Answer, Question, Usage, Volume};

/// Answers what the agent asks.
pub(super) fn answer(context: &mut Context, now: u64, question: &[u8], out: &mut Vec<u8>) {
    let Some(question) = Question::from_bytes(question) else { return };
    context.settle();
    let last = Some(context.last).filter(|last| *last != 0);
    let Some(record) = &mut context.record else {
        return Answer::default().write(out);
    };
    let Record { rules, meters, since, .. } = &mut **record;
    let last_packet = Some(last.map_or(*since, |last| last.max(*since)));
    let mut answer = Answer { last_packet, ..Answer::default() };
    if question == Question::Show {
        let rules = rules.urrs.iter();
        answer.usage =
            rules.zip(&*meters).map(|(rule, meter)| meter.clone().take(rule, now)).collect();
        return answer.write(out);
    }
    if let Question::Reported(reported) = &question {
        for (rule, meter) in rules.urrs.iter().zip(meters.iter_mut()) {
            if let Some((_, next)) = reported.iter().find(|(id, _)| *id == rule.id) {
                meter.catch_up(rule, *next, now);
            }
        }
        context.refresh();
        return Answer::default().write(out);
    }
    for (rule, meter) in rules.urrs.iter().zip(meters.iter_mut()) {
        meter.split(rule, now);
        meter.look(rule, now);
    }
    let (wanted, trigger) = wanted(&question);
    let mut reported = vec![false; meters.len()];
    for ((rule, meter), is_reported) in rules.urrs.iter().zip(meters.iter_mut()).zip(&mut reported)
    {
        let is_wanted = wanted.is_none_or(|wanted| wanted.contains(&rule.id));
        if let Some(trigger) = trigger.filter(|_| is_wanted) {
            meter.due = meter.due.with(trigger);
        }
        *is_reported = is_wanted && !meter.due.is_empty();
    }
    // A report of a rule leads to those of rules that are linked to it (§5.2.2.4).
    while let Some(at) = next_linked(rules, &reported) {
        meters[at].due = meters[at].due.with(Trigger::Linked);
        reported[at] = true;
    }
    for (at, _) in reported.iter().enumerate().filter(|(_, is_reported)| **is_reported) {
        let before = meters[at].before.take().map(|before| *before);
        answer.usage.extend(before);
        answer.usage.push(meters[at].take(&rules.urrs[at], now));
    }
    let next =
        rules.urrs.iter().zip(&*meters).filter_map(|(rule, meter)| meter.next_look(rule, now));
    answer.next = next.min();
    answer.write(out);
    context.refresh();
}

/// The rules that a question is about, none for all, and what makes them report beside what is
/// due by itself.
fn wanted(question: &Question) -> (Option<&[UrrId]>, Option<Trigger>) {
    match question {
        Question::Due => (None, None),
        Question::Of(rules) => (Some(rules), Some(Trigger::Immediate)),
        Question::All => (None, Some(Trigger::Immediate)),
        Question::Last(rules) => (Some(rules), Some(Trigger::Termination)),
        Question::End | Question::Show | Question::Reported(_) => {
            (None, Some(Trigger::Termination))
        }
    }
}

/// The place of a rule that is linked to one that is reported, and is not reported itself.
fn next_linked(rules: &Session, reported: &[bool]) -> Option<usize> {
    let is_reported = |id: &UrrId| {
        rules.urrs.iter().zip(reported).any(|(rule, reported)| rule.id == *id && *reported)
    };
    rules.urrs.iter().enumerate().position(|(at, rule)| {
        !reported[at] && rule.triggers.has(Trigger::Linked) && rule.linked.iter().any(is_reported)
    })
}

/// Writes the rules, as text, and the state of each; with the time of day of that, where the
/// version has it.
pub(super) fn export(context: &Context, day: Option<TimeOfDay>, out: &mut Vec<u8>) {
    let Some(record) = &context.record else { return };
    let text = serde_json::to_vec(&*record.rules).unwrap_or_default();
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(&text);
    write_state(context, day, out);
}

/// Writes the state of each rule, for a context that has the same rules.
pub(super) fn export_state(context: &Context, day: TimeOfDay, out: &mut Vec<u8>) {
    let Some(record) = &context.record else { return };
    write_names(&record.rules, out);
    write_state(context, Some(day), out);
}

/// What tells the rules that have a state from others.
fn write_names(rules: &Session, out: &mut Vec<u8>) {
    let limited = rules.qers.iter().map(|rule| (rule.id.0, 0));
    let measured = rules.urrs.iter().map(|rule| (rule.id.0, rule.created));
    for names in [limited.collect::<Vec<_>>(), measured.collect()] {
        out.extend_from_slice(&(names.len() as u32).to_le_bytes());
        for (id, created) in names {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&created.to_le_bytes());
        }
    }
}

fn write_state(context: &Context, day: Option<TimeOfDay>, out: &mut Vec<u8>) {
    let Some(record) = &context.record else { return };
    // What is counted in the context belongs to the record.
    let mut copy = Context {
        record: Some(Box::new(Record {
            rules: record.rules.clone(),
            detectors: Box::default(),
            counted: record.counted.clone(),
            domains: None,
            limiters: record.limiters.clone(),
            meters: record.meters.clone(),
            since: record.since,
            time_of_day: None,
            waiting: record.waiting,
            told: record.told,
        })),
        last: context.last,
        per_octet: context.per_octet,
        full_at: context.full_at,
        octets: context.octets,
        packets: context.packets,
        first: context.first,
        ..Context::default()
    };
    if record.detectors.is_empty() {
        copy.settle();
    }
    let Some(record) = &copy.record else { return };
    for field in [context.last.cast_unsigned(), record.waiting.into()] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.push(record.told.into());
    for limiter in &record.limiters {
        let full_at = limiter.buckets.iter().map(|bucket| bucket.full_at);
        let packets = limiter.packets.iter().map(|bucket| bucket.full_at);
        full_at.chain(packets).for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
    }
    record.meters.iter().for_each(|meter| write_meter(meter, out));
    if let Some(TimeOfDay(day)) = day {
        for time in [day, record.since] {
            out.extend_from_slice(&time.to_le_bytes());
        }
    }
}

fn write_volume(volume: &Volume, out: &mut Vec<u8>) {
    let Volume { uplink_octets, downlink_octets, uplink_packets, downlink_packets } = *volume;
    for field in [uplink_octets, downlink_octets, uplink_packets, downlink_packets] {
        out.extend_from_slice(&field.to_le_bytes());
    }
}

fn read_volume(fields: &mut Fields<'_>) -> Result<Volume, ContextError> {
    Ok(Volume {
        uplink_octets: fields.u64()?,
        downlink_octets: fields.u64()?,
        uplink_packets: fields.u64()?,
        downlink_packets: fields.u64()?,
    })
}

fn write_meter(meter: &Meter, out: &mut Vec<u8>) {
    for field in [meter.sequence, meter.due.bits()] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    write_volume(&meter.volume, out);
    write_volume(&meter.granted, out);
    let Meter { granted_time, granted_at, start, duration, dropped, .. } = *meter;
    let (granted_at, start) = (granted_at.cast_unsigned(), start.cast_unsigned());
    for field in [granted_time, granted_at, start, duration, dropped[0], dropped[1]] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    let times = [meter.first, meter.last, meter.running, meter.period_at, meter.monitoring_at];
    for time in times {
        write_option(time, out, |time, out| out.extend_from_slice(&time.to_le_bytes()));
    }
    write_option(meter.before.as_deref(), out, Usage::write);
    out.extend([meter.started, meter.exhausted].map(u8::from));
}

fn read_meter(fields: &mut Fields<'_>) -> Result<Meter, ContextError> {
    let time =
        |fields: &mut Fields<'_>| read_option(fields, |fields| Ok(fields.u64()?.cast_signed()));
    Ok(Meter {
        sequence: fields.u32()?,
        due: Triggers::from_bits(fields.u32()?),
        volume: read_volume(fields)?,
        granted: read_volume(fields)?,
        granted_time: fields.u64()?,
        granted_at: fields.u64()?.cast_signed(),
        start: fields.u64()?.cast_signed(),
        duration: fields.u64()?,
        dropped: [fields.u64()?, fields.u64()?],
        first: time(fields)?,
        last: time(fields)?,
        running: time(fields)?,
        period_at: time(fields)?,
        monitoring_at: time(fields)?,
        before: read_option(fields, Usage::read)?.map(Box::new),
        started: flag(fields)?,
        exhausted: flag(fields)?,
        told: false,
        is_timed: false,
    })
}

fn flag(fields: &mut Fields<'_>) -> Result<bool, ContextError> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ContextError::Damaged),
    }
}

/// Reads what [`export`] wrote, with the time of day of that or without.
pub(super) fn import(bytes: &[u8], has_day: bool, names: &Names) -> Result<Context, ContextError> {
    if bytes.is_empty() {
        return Ok(Context::default());
    }
    let damaged = |()| ContextError::Damaged;
    let (length, bytes) = bytes.split_first_chunk().ok_or(ContextError::Damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (text, bytes) = bytes.split_at_checked(length).ok_or(ContextError::Damaged)?;
    let rules: Session = serde_json::from_slice(text).map_err(|_| damaged(()))?;
    check::check(&rules).map_err(|_| damaged(()))?;
    let mut fields = Fields::new(bytes);
    let mut record = Record::new(Arc::new(rules), None, 0);
    let last = read_state(&mut record, &mut fields, has_day)?;
    fields.end()?;
    let mut context = Context { last, ..Context::default() };
    context.put(record, names);
    Ok(context)
}

/// Reads what [`export_state`] wrote of a session that has the same rules here.
pub(super) fn import_state(context: &mut Context, bytes: &[u8]) -> Result<(), ContextError> {
    let Some(record) = &mut context.record else {
        return if bytes.is_empty() { Ok(()) } else { Err(ContextError::Damaged) };
    };
    let mut names = Vec::with_capacity(64);
    write_names(&record.rules, &mut names);
    let state = bytes.strip_prefix(&names[..]).ok_or(ContextError::Damaged)?;
    let mut fields = Fields::new(state);
    let before = (record.limiters.clone(), record.meters.clone(), record.waiting, record.told);
    let since = record.since;
    let read = read_state(record, &mut fields, true);
    match read.and_then(|last| fields.end().map(|()| last)) {
        Ok(last) => {
            context.last = last;
            context.go_on();
            Ok(())
        }
        Err(error) => {
            (record.limiters, record.meters, record.waiting, record.told) = before;
            (record.since, record.time_of_day) = (since, None);
            Err(error)
        }
    }
}

/// Reads what [`write_state`] wrote; when the last packet passed.
fn read_state(
    record: &mut Record,
    fields: &mut Fields<'_>,
    has_day: bool,
) -> Result<i64, ContextError> {
    let last = fields.u64()?.cast_signed();
    record.waiting = u32::try_from(fields.u64()?).map_err(|_| ContextError::Damaged)?;
    record.told = flag(fields)?;
    for Limiter { buckets, packets, .. } in &mut record.limiters {
        for bucket in buckets {
            bucket.full_at = fields.u64()?;
        }
        for bucket in packets {
            bucket.full_at = fields.u64()?;
        }
    }
    for meter in &mut record.meters {
        *meter = read_meter(fields)?;
    }
    record.time_of_day = None;
    if has_day {
        record.time_of_day = Some(TimeOfDay(fields.u64()?.cast_signed()));
        record.since = fields.u64()?.cast_signed();
    }
    Ok(last)
}

/// The clock is another: it shows `now` at the time of day `unix`, and the one before showed
/// `then` as the state was written. Periods and other times at which something is due go on
/// meanwhile; what buckets lack they lack on.
pub(super) fn rebase(context: &mut Context, then: u64, now: u64, unix: u64) {
    let day = context.record.as_mut().and_then(|record| record.time_of_day.take());
    let away = day.map_or(0, |day| day.away(then, unix));
    let began = now.cast_signed().saturating_sub_unsigned(away);
    let moved = |time: i64| began.saturating_add(time.saturating_sub(then.cast_signed()));
    for time in [&mut context.first, &mut context.last] {
        if *time != 0 {
            // 0 is no time.
            *time = Some(moved(*time)).filter(|time| *time != 0).unwrap_or(1);
        }
    }
    for direction in [0, 1] {
        let mut bucket = context.bucket(direction);
        bucket.rebase(then, now);
        context.set_bucket(direction, bucket);
    }
    let Some(record) = &mut context.record else { return };
    for limiter in &mut record.limiters {
        limiter.buckets.iter_mut().for_each(|bucket| bucket.rebase(then, now));
        limiter.packets.iter_mut().for_each(|bucket| bucket.rebase(then, now));
    }
    record.since = match day {
        Some(_) => moved(record.since),
        None => now.cast_signed(),
    };
    for (rule, meter) in record.rules.urrs.iter().zip(&mut record.meters) {
        meter.rebase(rule, then, now, away);
    }
}

/// What an operator sees: the sum of what rules have measured since their last reports.
pub(super) fn show(context: &Context) -> Vec<(&'static str, u64)> {
    let Some(record) = &context.record else { return Vec::new() };
    vec![
        ("pdrs", record.rules.pdrs.len() as u64),
        ("usual", record.detectors.is_empty().into()),
        ("waiting", record.waiting.into()),
    ]
}
