//! Turns tokens into syntax; each statement that cannot be read is reported once.

use crate::language::diagnostic::{Diagnostic, Position};
use crate::language::lex::{Kind, Statement, Token, statements};
use crate::language::syntax::{Chain, Comparison, Expression, Item, Name, Operand, Operator, Rule};

/// Parentheses and negations may be nested so deep.
const NESTING: usize = 64;

/// Reads a whole rule text.
pub(crate) fn items<'t>(text: &'t str, diagnostics: &mut Vec<Diagnostic>) -> Vec<Item<'t>> {
    let mut items = Vec::new();
    for statement in statements(text, diagnostics) {
        if statement.broken {
            continue;
        }
        match Parser::new(&statement).item() {
            Ok(item) => items.push(item),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    items
}

/// Reads a text that is one condition; `None` if that failed and was reported.
pub(crate) fn condition<'t>(
    text: &'t str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Expression<'t>> {
    let mut whole = Statement { end: Position { line: 1, column: 1 }, ..Statement::default() };
    // Line ends mean nothing in a condition that stands alone.
    for part in statements(text, diagnostics) {
        whole.tokens.extend(part.tokens);
        whole.end = part.end;
        whole.broken |= part.broken;
    }
    if whole.broken {
        return None;
    }
    let mut parser = Parser::new(&whole);
    let parsed = parser.expression().and_then(|expression| {
        parser.end("`&&`, `||` or the end of the condition")?;
        Ok(expression)
    });
    parsed.map_err(|diagnostic| diagnostics.push(diagnostic)).ok()
}

type Parsed<T> = Result<T, Diagnostic>;

/// Reads one statement from left to right.
struct Parser<'s, 't> {
    tokens: &'s [Token<'t>],
    end: Position,
    depth: usize,
}

impl<'s, 't> Parser<'s, 't> {
    fn new(statement: &'s Statement<'t>) -> Self {
        Self { tokens: &statement.tokens, end: statement.end, depth: 0 }
    }

    fn item(&mut self) -> Parsed<Item<'t>> {
        let at = self.at();
        match self.peek() {
            Some(Kind::Word("chain")) => self.chain().map(Item::Chain),
            Some(Kind::Word("from")) => self.rule(at).map(Item::Rule),
            Some(Kind::Word(word)) => {
                Err(self.expected("`from` or `chain`").nearest(word, &["from", "chain"]))
            }
            _ => Err(self.expected("`from` or `chain`")),
        }
    }

    fn chain(&mut self) -> Parsed<Chain<'t>> {
        self.advance();
        let name = self.name("the name of the chain")?;
        self.symbol("=", "`=`")?;
        if self.tokens.is_empty() {
            let message = format!("the chain `{}` is empty", name.text);
            let hint = "write a rule for the shortcut instead: from PLACE when … -> PLACE";
            return Err(Diagnostic::error(name.at, message).hint(hint));
        }
        let mut functions = vec![self.name("a function")?];
        while self.takes("->") {
            functions.push(self.name("a function")?);
        }
        self.end("`->` or the end of the chain")?;
        Ok(Chain { name, functions })
    }

    fn rule(&mut self, at: Position) -> Parsed<Rule<'t>> {
        self.advance();
        let from = self.name("a place")?;
        let mut when = None;
        if self.peek() == Some(Kind::Word("when")) {
            self.advance();
            when = Some((self.at(), self.expression()?));
            self.symbol("->", "`&&`, `||` or `->`")?;
        } else {
            self.symbol("->", "`when` or `->`")?;
        }
        let to = self.name("a place")?;
        if self.peek() == Some(Kind::Word("when")) {
            let hint = "write: from PLACE when CONDITION -> PLACE";
            return Err(self.expected("the end of the rule").hint(hint));
        }
        self.end("the end of the rule")?;
        Ok(Rule { at, from, when, to })
    }

    fn expression(&mut self) -> Parsed<Expression<'t>> {
        let mut any = vec![self.conjunction()?];
        while self.takes("||") {
            any.push(self.conjunction()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Any(any) })
    }

    fn conjunction(&mut self) -> Parsed<Expression<'t>> {
        let mut all = vec![self.factor()?];
        while self.takes("&&") {
            all.push(self.factor()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::All(all) })
    }

    fn factor(&mut self) -> Parsed<Expression<'t>> {
        let at = self.at();
        let negated = self.takes("!");
        if !negated && !self.takes("(") {
            return self.comparison();
        }
        self.depth += 1;
        if self.depth > NESTING {
            let message = format!("the condition is nested deeper than {NESTING} levels");
            return Err(Diagnostic::error(at, message));
        }
        let inner = if negated {
            Expression::Not(Box::new(self.factor()?))
        } else {
            let inner = self.expression()?;
            self.symbol(")", "`&&`, `||` or `)`")?;
            inner
        };
        self.depth -= 1;
        Ok(inner)
    }

    fn comparison(&mut self) -> Parsed<Expression<'t>> {
        let subject = self.name("a header field or tag")?;
        if subject.text == "true" {
            return Ok(Expression::True);
        }
        let at = self.at();
        let operator = self.operator()?;
        let operands = if self.peek() == Some(Kind::Symbol("{")) {
            if operator != Operator::In {
                return Err(self.expected("a value").hint("write `in` before a set"));
            }
            self.set()?
        } else {
            vec![self.operand()?]
        };
        Ok(Expression::Comparison(Comparison { subject, operator, at, operands }))
    }

    fn operator(&mut self) -> Parsed<Operator> {
        let operator = match self.peek() {
            Some(Kind::Word("in")) => Operator::In,
            Some(Kind::Symbol("==")) => Operator::Equal,
            Some(Kind::Symbol("!=")) => Operator::NotEqual,
            Some(Kind::Symbol("<")) => Operator::Less,
            Some(Kind::Symbol("<=")) => Operator::AtMost,
            Some(Kind::Symbol(">")) => Operator::Greater,
            Some(Kind::Symbol(">=")) => Operator::AtLeast,
            Some(Kind::Symbol("=")) => {
                return Err(self.expected("a comparison").hint("write `==` to compare"));
            }
            _ => return Err(self.expected("a comparison")),
        };
        self.advance();
        Ok(operator)
    }

    fn set(&mut self) -> Parsed<Vec<Operand<'t>>> {
        self.advance();
        let mut operands = vec![self.operand()?];
        while self.takes(",") {
            operands.push(self.operand()?);
        }
        self.symbol("}", "`,` or `}`")?;
        Ok(operands)
    }

    fn operand(&mut self) -> Parsed<Operand<'t>> {
        let low = self.name("a value")?;
        if !self.takes("..") {
            return Ok(Operand::One(low));
        }
        Ok(Operand::Range(low, self.name("the end of the range")?))
    }

    /// Where the next token stands, or where it is missing.
    fn at(&self) -> Position {
        self.tokens.first().map_or(self.end, |token| token.at)
    }

    fn peek(&self) -> Option<Kind<'t>> {
        self.tokens.first().map(|token| token.kind)
    }

    fn advance(&mut self) {
        self.tokens = &self.tokens[1..];
    }

    /// Takes the next token if it is this symbol.
    fn takes(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Symbol(next)) if next == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn name(&mut self, wanted: &str) -> Parsed<Name<'t>> {
        match self.tokens.first() {
            Some(&Token { kind: Kind::Word(text), at }) => {
                self.advance();
                Ok(Name { text, at })
            }
            _ => Err(self.expected(wanted)),
        }
    }

    fn symbol(&mut self, symbol: &str, wanted: &str) -> Parsed<()> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(wanted)) }
    }

    fn end(&self, wanted: &str) -> Parsed<()> {
        if self.tokens.is_empty() { Ok(()) } else { Err(self.expected(wanted)) }
    }

    fn expected(&self, wanted: &str) -> Diagnostic {
        let message = match self.peek() {
            Some(kind) => format!("expected {wanted}, found {kind}"),
            None => format!("expected {wanted}, found the end of the line"),
        };
        Diagnostic::error(self.at(), message)
    }
}
