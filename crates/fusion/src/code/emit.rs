//! Machine code for micro-operations, by Cranelift.
//!
//! ```text
//! entry(packets, selected, frame):
//!   while selected != 0:
//!     position = lowest bit of selected; take it out
//!     the micro-operations, for packets[position]
//!   return 0
//! ```
//! A packet that is punted ends the loop: its position is noted and the rest of
//! `selected` returned.

mod arithmetic;
mod frame;
mod memory;

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, BlockArg, Function, InstBuilder, MemFlags, Signature,
    UserFuncName, Value as Number, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use weft_function::lower::{Base, Label, Note, Operation, Value};
use weft_function::metadata::layout;

use super::enter::{
    CAPACITY, CONTEXTS, DROPPED, DROPPED_BY_FUNCTION, DROPPED_BY_REASON, DROPPED_BY_SHIFT,
    FUNCTION, NOW, POSITION, REASONS,
};
use super::{CompileError, Listing};
use crate::LinkedProgram;
use crate::bits::Bits;
use arithmetic::Flag;

/// Compiles a way that was verified.
pub(super) fn machine_code(way: &LinkedProgram, listed: bool) -> Result<Listing, CompileError> {
    let isa = isa()?;
    let mut context = cranelift_codegen::Context::new();
    context.func = function(way);
    context.set_disasm(listed);
    let code = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|error| CompileError::Generator(format!("{:?}", error.inner)))?;
    if !code.buffer.relocs().is_empty() {
        return Err(CompileError::Generator("the code is not in one piece".to_owned()));
    }
    let instructions = code.vcode.clone().unwrap_or_default();
    Ok(Listing { instructions, bytes: code.code_buffer().to_vec() })
}

/// The processor at hand, as far as it is known to matter.
fn isa() -> Result<&'static OwnedTargetIsa, CompileError> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let made = ISA.get_or_init(|| {
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").map_err(|error| error.to_string())?;
        flags.set("enable_verifier", "true").map_err(|error| error.to_string())?;
        let mut isa =
            cranelift_codegen::isa::lookup_by_name("x86_64").map_err(|error| error.to_string())?;
        for (flag, there) in [
            ("has_bmi1", std::arch::is_x86_feature_detected!("bmi1")),
            ("has_bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ] {
            if there {
                isa.enable(flag).map_err(|error| error.to_string())?;
            }
        }
        isa.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| CompileError::Generator(error.clone()))
}

fn function(way: &LinkedProgram) -> Function {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend([AbiParam::new(types::I64); 3]);
    signature.returns.push(AbiParam::new(types::I64));
    let mut function = Function::with_name_signature(UserFuncName::default(), signature);
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut function, &mut context);
    let entry = builder.create_block();
    let (next, body) = (builder.create_block(), builder.create_block());
    builder.append_block_params_for_function_params(entry);
    let &[packets, selected, frame] = builder.block_params(entry) else {
        unreachable!("a function with three parameters")
    };
    builder.switch_to_block(entry);
    builder.ins().jump(next, &[BlockArg::Value(selected)]);

    let selected = builder.append_block_param(next, types::I64);
    builder.switch_to_block(next);
    let done = builder.create_block();
    builder.ins().brif(selected, body, &[], done, &[]);

    builder.switch_to_block(body);
    let position = builder.ins().ctz(selected);
    let less = builder.ins().iadd_imm(selected, -1);
    let remaining = builder.ins().band(selected, less);
    let shifted = builder.ins().ishl_imm(position, 3);
    let place = builder.ins().iadd(packets, shifted);
    let packet = builder.ins().load(types::I64, flags(None), place, 0);
    let mut emitter = Emitter {
        way,
        builder,
        packet,
        frame,
        position,
        remaining,
        next,
        here: Some(Scope::default()),
        scopes: HashMap::new(),
        blocks: HashMap::new(),
        numbers: HashMap::new(),
        flags: HashMap::new(),
        bits: Bits::default(),
        rare: rare(way),
    };
    for operation in &way.operations {
        emitter.emit(operation);
    }
    let mut builder = emitter.builder;
    builder.switch_to_block(done);
    let zero = builder.ins().iconst(types::I64, 0);
    builder.ins().return_(&[zero]);
    builder.seal_all_blocks();
    builder.finalize();
    function
}

/// Labels behind which packets are punted.
fn rare(way: &LinkedProgram) -> HashSet<Label> {
    let pairs = way.operations.iter().zip(way.operations.iter().skip(1));
    let punted = pairs.filter_map(|pair| match pair {
        (Operation::Label { label }, Operation::Punt { .. }) => Some(*label),
        _ => None,
    });
    punted.collect()
}

/// Accesses never trap. Packets, contexts and what is noted of packets are
/// different memory.
fn flags(region: Option<AliasRegion>) -> MemFlags {
    let mut flags = MemFlags::new().with_notrap();
    flags.set_alias_region(region);
    flags
}

const NOTES: Option<AliasRegion> = Some(AliasRegion::Table);
const BYTES: Option<AliasRegion> = Some(AliasRegion::Heap);
const KEPT: Option<AliasRegion> = Some(AliasRegion::Vmctx);

/// Numbers that were made on the way here, beside the values.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// Where a base begins in memory.
    starts: [Option<Number>; Base::ALL.len()],
    /// Where a base begins in the frame.
    offsets: [Option<Number>; Base::ALL.len()],
    length: Option<Number>,
}

impl Scope {
    fn meet(self, other: Scope) -> Scope {
        let same = |one: Option<Number>, other| one.filter(|one| Some(*one) == other);
        Scope {
            starts: Base::ALL
                .map(|base| base as usize)
                .map(|base| same(self.starts[base], other.starts[base])),
            offsets: Base::ALL
                .map(|base| base as usize)
                .map(|base| same(self.offsets[base], other.offsets[base])),
            length: same(self.length, other.length),
        }
    }
}

struct Emitter<'a> {
    way: &'a LinkedProgram,
    builder: FunctionBuilder<'a>,
    packet: Number,
    frame: Number,
    position: Number,
    remaining: Number,
    next: Block,
    /// None where no way leads.
    here: Option<Scope>,
    scopes: HashMap<Label, Scope>,
    blocks: HashMap<Label, Block>,
    numbers: HashMap<Value, Number>,
    /// Values that are 0 or 1: numbers only where they are used as such.
    flags: HashMap<Value, Flag>,
    bits: Bits,
    /// Where packets leave the loop.
    rare: HashSet<Label>,
}

impl Emitter<'_> {
    fn number(&mut self, value: Value) -> Number {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let flag = self.flags[&value];
        let made = self.make(flag);
        self.builder.ins().uextend(types::I64, made)
    }

    fn constant(&mut self, number: u64) -> Number {
        self.builder.ins().iconst(types::I64, number as i64)
    }

    fn emit(&mut self, operation: &Operation) {
        if let Operation::Label { label } = *operation {
            return self.place(label);
        }
        if self.here.is_none() {
            return;
        }
        let Some(value) = operation.defines() else { return self.act(operation) };
        self.bits.note(value, operation);
        if let Some(flag) = self.flag(operation) {
            self.flags.insert(value, flag);
        } else if let Some(number) = self.define(operation) {
            self.numbers.insert(value, number);
        }
    }

    fn place(&mut self, label: Label) {
        let Some(block) = self.blocks.get(&label).copied() else { return };
        let mut scope = self.scopes.remove(&label);
        if let Some(here) = self.here {
            self.builder.ins().jump(block, &[]);
            scope = scope.map(|scope| scope.meet(here));
        }
        self.here = Some(scope.unwrap_or_default());
        self.builder.switch_to_block(block);
    }

    /// The block of a label that is jumped to from here.
    fn block(&mut self, label: Label) -> Block {
        let here = self.here.unwrap_or_default();
        let builder = &mut self.builder;
        let block = *self.blocks.entry(label).or_insert_with(|| builder.create_block());
        let scope = self.scopes.entry(label).or_insert(here);
        *scope = scope.meet(here);
        block
    }

    /// Jumps if `when` is not 0, and goes on otherwise.
    fn branch(&mut self, when: Number, to: Label, is_rare: bool) {
        let to = self.block(to);
        let otherwise = self.builder.create_block();
        self.builder.ins().brif(when, to, &[], otherwise, &[]);
        if is_rare {
            self.builder.set_cold_block(to);
        }
        self.builder.switch_to_block(otherwise);
    }

    /// None for what defines nothing or needs a jump.
    fn define(&mut self, operation: &Operation) -> Option<Number> {
        Some(match *operation {
            Operation::Constant { number, .. } => self.constant(number),
            Operation::Length { .. } => self.length(),
            Operation::Now { .. } => {
                self.builder.ins().load(types::I64, flags(None), self.frame, NOW)
            }
            Operation::Note { note, .. } => self.note(note),
            Operation::Tag { slot, .. } => {
                let offset = layout::TAGS + 4 * slot.index() as i32;
                self.builder.ins().uload32(flags(NOTES), self.packet, offset)
            }
            Operation::Arithmetic { operator, left, right, .. } => {
                self.arithmetic(operator, left, right)
            }
            Operation::Select { when, then, otherwise, .. } => {
                let (when, then) = (self.condition(when), self.number(then));
                let otherwise = self.number(otherwise);
                self.builder.ins().select(when, then, otherwise)
            }
            Operation::LoadPacket { place, .. } => self.load(place),
            Operation::LoadContext { context, field, .. } => {
                let context = self.number(context);
                self.load_number(field.octets, flags(KEPT), context, field.offset.into())
            }
            Operation::Locate { function, index, otherwise, .. } => {
                return Some(self.locate(function, index, otherwise));
            }
            _ => return None,
        })
    }

    fn act(&mut self, operation: &Operation) {
        match *operation {
            Operation::Require { base, octets, otherwise } => {
                self.require(base, octets, otherwise);
            }
            Operation::StorePacket { place, value } => {
                let value = self.number(value);
                self.store(place, value);
            }
            Operation::StoreContext { context, field, value } => {
                let (context, value) = (self.number(context), self.number(value));
                let offset = field.offset.into();
                self.store_number(field.octets, flags(KEPT), value, context, offset);
            }
            Operation::AddContext { context, field, value } => {
                let (context, value) = (self.number(context), self.number(value));
                let offset = field.offset.into();
                let before = self.load_number(field.octets, flags(KEPT), context, offset);
                let sum = self.builder.ins().iadd(before, value);
                self.store_number(field.octets, flags(KEPT), sum, context, offset);
            }
            Operation::SetTag { slot, value } => {
                let value = self.number(value);
                let offset = layout::TAGS + 4 * slot.index() as i32;
                self.builder.ins().istore32(flags(NOTES), value, self.packet, offset);
            }
            Operation::Repair { checksum, change } => self.repair(checksum, change),
            Operation::Front { offset, octets, outer, otherwise } => {
                self.front(offset, (octets, outer), otherwise);
            }
            Operation::Truncate { octets } => self.truncate(octets),
            Operation::Branch { when, to } => {
                let when = self.condition(when);
                self.branch(when, to, self.rare.contains(&to));
            }
            Operation::Jump { to } => {
                let to = self.block(to);
                self.builder.ins().jump(to, &[]);
                self.here = None;
            }
            Operation::Forward => self.go_on(),
            Operation::Drop { function, reason } => self.drop_packet(function, reason),
            Operation::Punt { function } => self.punt(function),
            _ => {}
        }
    }

    fn length(&mut self) -> Number {
        let scope = self.here.unwrap_or_default();
        if let Some(length) = scope.length {
            return length;
        }
        let length = self.load_number(2, flags(NOTES), self.packet, layout::DATA_LEN);
        self.here = Some(Scope { length: Some(length), ..scope });
        length
    }

    fn note(&mut self, note: Note) -> Number {
        match note {
            Note::NetworkOffset => self.offset(Base::Network),
            Note::TransportOffset => self.offset(Base::Transport),
            Note::OuterOffset => self.offset(Base::Outer),
            _ => self.load_note(note),
        }
    }

    fn load_note(&mut self, note: Note) -> Number {
        let (octets, offset) = match note {
            Note::User => (4, layout::USER),
            Note::Bearer => (4, layout::BEARER),
            Note::Group => (4, layout::GROUP),
            Note::NetworkOffset => (2, layout::NETWORK_OFFSET),
            Note::TransportOffset => (2, layout::TRANSPORT_OFFSET),
            Note::EtherType => (2, layout::ETHER_TYPE),
            Note::Protocol => (1, layout::PROTOCOL),
            Note::Flags => (1, layout::FLAGS),
            Note::NetworkLength => (2, layout::NETWORK_LENGTH),
            Note::OuterOffset => (2, layout::OUTER_OFFSET),
        };
        self.load_number(octets, flags(NOTES), self.packet, offset)
    }

    fn offset(&mut self, base: Base) -> Number {
        let scope = self.here.unwrap_or_default();
        if let Some(offset) = scope.offsets[base as usize] {
            return offset;
        }
        let offset = match base {
            Base::Frame => self.constant(0),
            Base::Network => self.load_note(Note::NetworkOffset),
            Base::Transport => self.load_note(Note::TransportOffset),
            Base::Outer => self.load_note(Note::OuterOffset),
        };
        let mut scope = scope;
        scope.offsets[base as usize] = Some(offset);
        self.here = Some(scope);
        offset
    }

    /// Where a base begins in memory.
    fn start(&mut self, base: Base) -> Number {
        let scope = self.here.unwrap_or_default();
        if let Some(start) = scope.starts[base as usize] {
            return start;
        }
        let start = match base {
            Base::Frame => {
                let ins = self.builder.ins();
                let buffer = ins.load(types::I64, flags(NOTES), self.packet, layout::BUF_ADDR);
                let ins = self.builder.ins();
                let first = ins.uload16(types::I64, flags(NOTES), self.packet, layout::DATA_OFF);
                self.builder.ins().iadd(buffer, first)
            }
            _ => {
                let (frame, offset) = (self.start(Base::Frame), self.offset(base));
                self.builder.ins().iadd(frame, offset)
            }
        };
        let start = self.whole(start);
        let mut scope = self.here.unwrap_or_default();
        scope.starts[base as usize] = Some(start);
        self.here = Some(scope);
        start
    }

    /// The same number, of which Cranelift does not know that it is a sum. Else each
    /// access would add up anew, and both parts would have to be kept for that.
    fn whole(&mut self, sum: Number) -> Number {
        let pair = self.builder.ins().iconcat(sum, sum);
        self.builder.ins().isplit(pair).0
    }

    fn require(&mut self, base: Base, octets: u16, otherwise: Label) {
        // Before the branch, so that both sides know them.
        let length = self.length();
        self.start(base);
        let offset = self.offset(base);
        let end = self.builder.ins().iadd_imm(offset, i64::from(octets));
        let is_short = self.builder.ins().icmp(IntCC::UnsignedLessThan, length, end);
        self.branch(is_short, otherwise, true);
    }

    /// The beginning of a context.
    fn locate(&mut self, function: u8, index: Value, otherwise: Option<Label>) -> Number {
        let index = self.number(index);
        if let Some(otherwise) = otherwise {
            let capacity = self.builder.ins().load(types::I64, flags(None), self.frame, CAPACITY);
            let ins = self.builder.ins();
            let is_beyond = ins.icmp(IntCC::UnsignedGreaterThanOrEqual, index, capacity);
            self.branch(is_beyond, otherwise, true);
        }
        let octets = self.way.functions[usize::from(function)].context_octets;
        let offset = self.builder.ins().imul_imm(index, octets as i64);
        let slot = CONTEXTS + 8 * i32::from(function);
        let first = self.builder.ins().load(types::I64, flags(None), self.frame, slot);
        let start = self.builder.ins().iadd(first, offset);
        self.whole(start)
    }

    fn go_on(&mut self) {
        self.builder.ins().jump(self.next, &[BlockArg::Value(self.remaining)]);
        self.here = None;
    }

    fn drop_packet(&mut self, function: u8, reason: u8) {
        let ins = self.builder.ins();
        let reasons = ins.load(types::I64, flags(None), self.frame, REASONS);
        let twice = self.builder.ins().ishl_imm(self.position, DROPPED_BY_SHIFT);
        let place = self.builder.ins().iadd(reasons, twice);
        let number = self.constant(function.into());
        self.builder.ins().istore8(flags(None), number, place, DROPPED_BY_FUNCTION);
        let number = self.constant(reason.into());
        self.builder.ins().istore8(flags(None), number, place, DROPPED_BY_REASON);
        let one = self.constant(1);
        let bit = self.builder.ins().ishl(one, self.position);
        let ins = self.builder.ins();
        let dropped = ins.load(types::I64, flags(None), self.frame, DROPPED);
        let dropped = self.builder.ins().bor(dropped, bit);
        self.builder.ins().store(flags(None), dropped, self.frame, DROPPED);
        self.go_on();
    }

    fn punt(&mut self, function: u8) {
        let number = self.constant(function.into());
        self.builder.ins().store(flags(None), number, self.frame, FUNCTION);
        self.builder.ins().store(flags(None), self.position, self.frame, POSITION);
        self.builder.ins().return_(&[self.remaining]);
        self.here = None;
    }
}
