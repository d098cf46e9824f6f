//! Reads the part of Python's pickle format that CIFAR's Python files use: protocol 2 with
//! dictionaries, lists, strings, small numbers and numpy byte arrays. A pickle is a program for a
//! stack machine; this machine has no other instructions.
//!
//! Strings and arrays stay in the file, as ranges of bytes. Every instruction creates at most one
//! value, and the number and nesting of values are bounded, so a hostile file costs no more than a
//! valid one.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use crate::data::DataError;

/// Largest number of values; CIFAR-100's training file has 150,032.
const MAX_VALUES: usize = 1_000_000;
/// Deepest nesting of values; a dictionary of lists has 2 levels, the state of an array 3.
const MAX_NESTING: usize = 4;

/// A value on the stack.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Bytes(Range<usize>),
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Global(Global),
    ByteType,
    EmptyArray,
    Array(Array),
}

/// A name of Python that a file may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Global {
    Reconstruct,
    NdArray,
    Dtype,
}

/// A matrix of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub rows: usize,
    pub columns: usize,
    pub bytes: Range<usize>,
    /// Whether the bytes are in Fortran order, column by column.
    pub by_column: bool,
}

/// Reads the only value in a file.
pub fn read(file: &Path, bytes: &[u8]) -> Result<Value, DataError> {
    Machine {
        file,
        bytes,
        at: 0,
        opcode_at: 0,
        stack: vec![],
        marks: vec![],
        memo: HashMap::new(),
        made: 0,
    }
    .run()
}

/// The stack machine that runs a pickle.
struct Machine<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    at: usize,
    /// Byte offset of the current instruction, for errors.
    opcode_at: usize,
    stack: Vec<Value>,
    /// Heights of the stack at the marks.
    marks: Vec<usize>,
    /// Remembered values by number; `None` for values that may still change, which these files
    /// never recall.
    memo: HashMap<u32, Option<Value>>,
    made: usize,
}

impl Machine<'_> {
    /// Runs the program and returns its value.
    fn run(mut self) -> Result<Value, DataError> {
        if self.take(2)? != [0x80, 2] {
            return self.refuse("a pickle of protocol 2", "another beginning");
        }
        loop {
            self.opcode_at = self.at;
            match self.byte()? {
                b'.' => return self.stop(),
                b'(' => {
                    self.count()?;
                    self.marks.push(self.stack.len());
                }
                b'}' => self.push(Value::Dict(vec![]))?,
                b']' => self.push(Value::List(vec![]))?,
                b')' => self.push(Value::Tuple(vec![]))?,
                b'N' => self.push(Value::None)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'K' => {
                    let n = self.number::<1>()?;
                    self.push(Value::Int(n.into()))?;
                }
                b'M' => {
                    let n = self.number::<2>()?;
                    self.push(Value::Int(n.into()))?;
                }
                b'J' => {
                    let n = self.number::<4>()? as i32;
                    self.push(Value::Int(n.into()))?;
                }
                b'U' => self.string::<1>()?,
                b'T' => self.string::<4>()?,
                b'q' => self.remember::<1>()?,
                b'r' => self.remember::<4>()?,
                b'h' => self.recall::<1>()?,
                b'j' => self.recall::<4>()?,
                opcode @ 0x85..=0x87 => {
                    let Some(start) = self.stack.len().checked_sub(usize::from(opcode - 0x84))
                    else {
                        return self.refuse("values to make a tuple of", "an empty stack");
                    };
                    let items = self.stack.split_off(start);
                    self.push(Value::Tuple(items))?;
                }
                b't' => {
                    let items = self.since_mark()?;
                    self.push(Value::Tuple(items))?;
                }
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                b'e' => {
                    let items = self.since_mark()?;
                    self.append(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(vec![key, value])?;
                }
                b'u' => {
                    let items = self.since_mark()?;
                    self.set(items)?;
                }
                b'c' => self.global()?,
                b'R' => self.reduce()?,
                b'b' => self.build()?,
                other => {
                    return self
                        .refuse("an instruction that CIFAR's files use", format!("{other:#04x}"));
                }
            }
        }
    }

    /// Returns the only value on the stack, at the end of the file.
    fn stop(mut self) -> Result<Value, DataError> {
        let value = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() || self.at != self.bytes.len() {
            return self.refuse("the end of the only value", "more");
        }
        Ok(value)
    }

    /// Fails at the current instruction.
    fn refuse<T>(&self, expected: &str, found: impl Into<String>) -> Result<T, DataError> {
        Err(DataError::malformed(self.file, self.opcode_at, expected, found))
    }

    /// Reads the next bytes of the program.
    fn take(&mut self, count: usize) -> Result<&[u8], DataError> {
        let Some(bytes) = self.bytes[self.at..].get(..count) else {
            return self.refuse("the rest of an instruction", "the end of the file");
        };
        self.at += count;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, DataError> {
        Ok(self.take(1)?[0])
    }

    /// Reads a little-endian number.
    fn number<const BYTES: usize>(&mut self) -> Result<u32, DataError> {
        Ok(self.take(BYTES)?.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    /// Counts a created value; too many are an error.
    fn count(&mut self) -> Result<(), DataError> {
        self.made += 1;
        if self.made > MAX_VALUES {
            return self.refuse("at most a million values", "more");
        }
        Ok(())
    }

    /// Puts a value on the stack.
    fn push(&mut self, value: Value) -> Result<(), DataError> {
        self.count()?;
        if nesting(&value) > MAX_NESTING {
            return self.refuse("values nested at most four deep", "deeper ones");
        }
        self.stack.push(value);
        Ok(())
    }

    /// Removes the topmost value above the last mark.
    fn pop(&mut self) -> Result<Value, DataError> {
        match self.stack.len() > self.marks.last().copied().unwrap_or(0) {
            true => Ok(self.stack.pop().expect("the stack is higher than its mark")),
            false => self.refuse("a value to work on", "an empty stack"),
        }
    }

    /// Removes the last mark and all values above it.
    fn since_mark(&mut self) -> Result<Vec<Value>, DataError> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => self.refuse("a mark on the stack", "none"),
        }
    }

    /// Pushes a string, as its range in the file.
    fn string<const BYTES: usize>(&mut self) -> Result<(), DataError> {
        let length = self.number::<BYTES>()? as usize;
        let start = self.at;
        self.take(length)?;
        self.push(Value::Bytes(start..start + length))
    }

    /// Stores the topmost value under a number.
    fn remember<const BYTES: usize>(&mut self) -> Result<(), DataError> {
        self.count()?;
        let number = self.number::<BYTES>()?;
        let fixed = |value: &&Value| {
            !matches!(
                value,
                Value::List(_)
                    | Value::Tuple(_)
                    | Value::Dict(_)
                    | Value::EmptyArray
                    | Value::Array(_)
            )
        };
        let Some(value) = self.stack.last() else {
            return self.refuse("a value to remember", "an empty stack");
        };
        self.memo.insert(number, Some(value).filter(fixed).cloned());
        Ok(())
    }

    /// Pushes a copy of a stored value.
    fn recall<const BYTES: usize>(&mut self) -> Result<(), DataError> {
        let number = self.number::<BYTES>()?;
        match self.memo.get(&number).cloned().flatten() {
            Some(value) => self.push(value),
            None => self.refuse("a reference to a string", format!("one to value {number}")),
        }
    }

    /// Appends values to the list on top of the stack.
    fn append(&mut self, items: Vec<Value>) -> Result<(), DataError> {
        let flat = items.iter().all(|item| matches!(item, Value::Int(_) | Value::Bytes(_)));
        match self.stack.last_mut() {
            Some(Value::List(list)) if flat => list.extend(items),
            _ => return self.refuse("numbers or strings for a list", "something else"),
        }
        Ok(())
    }

    /// Adds keys and values to the dictionary on top of the stack.
    fn set(&mut self, items: Vec<Value>) -> Result<(), DataError> {
        let sound = items.len().is_multiple_of(2)
            && items.iter().step_by(2).all(|key| matches!(key, Value::Bytes(_)))
            && items.iter().all(|item| !matches!(item, Value::Dict(_)));
        match self.stack.last_mut() {
            Some(Value::Dict(entries)) if sound => {
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    entries.push((key, value));
                }
                Ok(())
            }
            _ => self.refuse("a dictionary and its entries", "something else"),
        }
    }

    /// Reads a line of text.
    fn line(&mut self) -> Result<String, DataError> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().take(64).position(|&byte| byte == b'\n') else {
            return self.refuse("a name", "none");
        };
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Ok(line)
    }

    /// Pushes a name of Python: a module and a name in it, on a line each.
    fn global(&mut self) -> Result<(), DataError> {
        let (module, name) = (self.line()?, self.line()?);
        let global = match (module.as_str(), name.as_str()) {
            ("numpy.core.multiarray", "_reconstruct") => Global::Reconstruct,
            ("numpy", "ndarray") => Global::NdArray,
            ("numpy", "dtype") => Global::Dtype,
            _ => return self.refuse("numpy's ndarray or dtype", format!("{module}.{name}")),
        };
        self.push(Value::Global(global))
    }

    /// Calls a function with a tuple of arguments.
    fn reduce(&mut self) -> Result<(), DataError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = arguments else {
            return self.refuse("a tuple of arguments", "something else");
        };
        match (function, arguments.as_slice()) {
            (
                Value::Global(Global::Reconstruct),
                [Value::Global(Global::NdArray), Value::Tuple(_), Value::Bytes(_)],
            ) => self.push(Value::EmptyArray),
            (Value::Global(Global::Dtype), [Value::Bytes(name), Value::Int(0), Value::Int(1)])
                if &self.bytes[name.clone()] == b"u1" =>
            {
                self.push(Value::ByteType)
            }
            _ => self.refuse("an array of bytes (dtype 'u1')", "another call"),
        }
    }

    /// Sets the state of an object.
    fn build(&mut self) -> Result<(), DataError> {
        let (state, object) = (self.pop()?, self.pop()?);
        let Value::Tuple(state) = state else {
            return self.refuse("a tuple of state", "something else");
        };
        match (object, state.as_slice()) {
            (Value::ByteType, _) => self.push(Value::ByteType),
            (
                Value::EmptyArray,
                [
                    Value::Int(1),
                    Value::Tuple(shape),
                    Value::ByteType,
                    Value::Bool(by_column),
                    Value::Bytes(bytes),
                ],
            ) => match shape[..] {
                [Value::Int(rows), Value::Int(columns)]
                    if i128::from(rows) * i128::from(columns) == bytes.len() as i128
                        && rows >= 0
                        && columns > 0 =>
                {
                    let (rows, columns) = (rows as usize, columns as usize);
                    let (bytes, by_column) = (bytes.clone(), *by_column);
                    self.push(Value::Array(Array { rows, columns, bytes, by_column }))
                }
                _ => {
                    self.refuse("a matrix as large as its bytes", format!("{} bytes", bytes.len()))
                }
            },
            _ => self.refuse("the state of an array", "something else"),
        }
    }
}

/// Nesting of a value. The recursion is bounded, because every value is checked when it is created.
fn nesting(value: &Value) -> usize {
    let items = |items: &[Value]| 1 + items.iter().map(nesting).max().unwrap_or(0);
    match value {
        Value::Tuple(values) => items(values),
        // Lists and dictionaries are pushed empty, and later receive flat values only.
        Value::List(_) | Value::Dict(_) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::pickled;

    fn parse(bytes: &[u8]) -> Result<Value, DataError> {
        read(Path::new("train"), bytes)
    }

    #[test]
    fn a_batch_of_numpy_and_python_2_is_read() {
        let bytes = pickled(&[("fine_labels", &[1, 2])], 2, 3, &[1, 2, 3, 4, 5, 6], 1);
        let Value::Dict(entries) = parse(&bytes).unwrap() else { panic!() };
        assert_eq!(entries.len(), 4);
        assert!(entries.iter().any(|(_, v)| *v == Value::List(vec![Value::Int(1), Value::Int(2)])));
        let array = entries.iter().find_map(|(_, value)| match value {
            Value::Array(array) => Some(array),
            _ => None,
        });
        let array = array.unwrap();
        assert_eq!(
            (array.rows, array.columns, &bytes[array.bytes.clone()]),
            (2, 3, &[1, 2, 3, 4, 5, 6][..])
        );
    }

    /// Every cut and every changed byte gives a value or an error, never a panic.
    #[test]
    fn damaged_pickles_never_panic() {
        let whole = pickled(&[("labels", &[1, 300])], 2, 3, &[1, 2, 3, 4, 5, 6], 1);
        for cut in 0..whole.len() {
            parse(&whole[..cut]).unwrap_err();
        }
        for at in 0..whole.len() {
            for value in (0..=255).step_by(3).chain(*b".()]}NKMJUTqrhjateuscRb") {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = parse(&bytes);
            }
        }
    }

    #[test]
    fn hostile_pickles_are_refused() {
        let refused = |program: &[u8], reason: &str| {
            let error = parse(program).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused(
            b"\x80\x02cos\nsystem\nU\x02ls\x85R.",
            "byte 2: expected numpy's ndarray or dtype, found os.system",
        );
        refused(b"\x80\x03.", "a pickle of protocol 2");
        refused(b"\x80\x02T\xff\xff\xff\xff", "the end of the file");
        refused(b"\x80\x02]q\x00h\x00.", "a reference to a string");
        refused(b"\x80\x02I1\n.", "an instruction that CIFAR's files use, found 0x49");
        refused(&[&b"\x80\x02)"[..], &[0x85; 100_000]].concat(), "nested at most four deep");
        refused(
            &[&b"\x80\x02]("[..], &b"K\x01".repeat(1_000_001)].concat(),
            "at most a million values",
        );
        refused(b"\x80\x02NN.", "the end of the only value");
        refused(b"\x80\x02(a.", "an empty stack");
    }
}
