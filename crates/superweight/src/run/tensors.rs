//! Named tensors in memory: what a `.safetensors` file holds.
//!
//! Five kinds of numbers, owned, not views of a byte buffer: a checkpoint is read once per run, and the copy (0.05 s for
//! 36 M numbers) buys aligned slices without `unsafe`.

use std::collections::BTreeMap;
use std::fmt;

use super::RunError;

/// The kind of numbers in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// Bytes.
    U8,
    /// 32-bit unsigned.
    U32,
    /// 64-bit signed.
    I64,
}

impl Dtype {
    pub(super) const ALL: [Self; 5] = [Self::F32, Self::F64, Self::U8, Self::U32, Self::I64];

    /// As files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::U8 => "U8",
            Self::U32 => "U32",
            Self::I64 => "I64",
        }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The numbers of a tensor, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// 32-bit floating point.
    F32(Vec<f32>),
    /// 64-bit floating point.
    F64(Vec<f64>),
    /// Bytes.
    U8(Vec<u8>),
    /// 32-bit unsigned.
    U32(Vec<u32>),
    /// 64-bit signed.
    I64(Vec<i64>),
}

impl Values {
    /// Which kind.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::F64(_) => Dtype::F64,
            Self::U8(_) => Dtype::U8,
            Self::U32(_) => Dtype::U32,
            Self::I64(_) => Dtype::I64,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A number that tensors are made of.
pub trait Element: Copy {
    /// Its kind.
    const DTYPE: Dtype;
    /// Into the numbers of a tensor.
    fn wrap(values: Vec<Self>) -> Values;
    /// Out of them, where they are of this kind.
    fn unwrap(values: &Values) -> Option<&[Self]>;
}

macro_rules! element {
    ($($number:ty => $variant:ident),*) => {$(
        impl Element for $number {
            const DTYPE: Dtype = Dtype::$variant;
            fn wrap(values: Vec<Self>) -> Values {
                Values::$variant(values)
            }
            fn unwrap(values: &Values) -> Option<&[Self]> {
                match values {
                    Values::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    )*};
}
element!(f32 => F32, f64 => F64, u8 => U8, u32 => U32, i64 => I64);

/// Numbers with a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Values,
}

impl Tensor {
    /// # Panics
    /// Where the shape does not hold as many numbers as there are.
    pub fn new<T: Element>(shape: &[usize], values: Vec<T>) -> Self {
        let count = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side));
        assert_eq!(count, Some(values.len()), "a tensor of shape {shape:?} holds as many numbers");
        Self { shape: shape.to_owned(), values: T::wrap(values) }
    }

    /// Sides, outermost first; none for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers, row by row.
    pub fn values(&self) -> &Values {
        &self.values
    }
}

/// Tensors by name, and a few strings about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors {
    /// `__metadata__` of the file.
    pub metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Tensor>,
}

impl Tensors {
    /// No tensors yet, and these strings.
    pub fn about(metadata: BTreeMap<String, String>) -> Self {
        Self { metadata, tensors: BTreeMap::new() }
    }

    /// Adds a tensor.
    ///
    /// # Panics
    /// Where the name is taken, or is the one that files keep for strings.
    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        assert_ne!(name, METADATA, "the name is the format's own");
        let before = self.tensors.insert(name.to_owned(), tensor);
        assert!(before.is_none(), "tensor '{name}' is there already");
    }

    /// What a reader has checked.
    pub(super) fn insert_read(&mut self, name: String, shape: Vec<usize>, values: Values) {
        self.tensors.insert(name, Tensor { shape, values });
    }

    /// A tensor by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The numbers of a tensor that must be there, of this kind and shape.
    pub fn expect<T: Element>(&self, name: &str, shape: &[usize]) -> Result<&[T], RunError> {
        let missing = || RunError::MissingTensor { tensor: name.to_owned() };
        let tensor = self.get(name).ok_or_else(missing)?;
        match T::unwrap(&tensor.values) {
            Some(values) if tensor.shape == shape => Ok(values),
            _ => Err(RunError::OtherTensor {
                tensor: name.to_owned(),
                found: tensor.values.dtype(),
                found_shape: tensor.shape.clone(),
                expected: T::DTYPE,
                expected_shape: shape.to_owned(),
            }),
        }
    }

    /// Names and tensors, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

/// Under which a file's header keeps its strings.
pub(super) const METADATA: &str = "__metadata__";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_there_or_an_error_says_what_is() {
        let mut tensors = Tensors::default();
        tensors.insert("a", Tensor::new(&[2, 3], vec![1f32; 6]));
        assert_eq!(tensors.expect::<f32>("a", &[2, 3]).unwrap(), [1.0; 6]);
        assert_eq!(
            tensors.expect::<f32>("b", &[1]).unwrap_err().to_string(),
            "there is no tensor 'b'"
        );
        let other = tensors.expect::<u32>("a", &[6]).unwrap_err();
        assert_eq!(other.to_string(), "tensor 'a' is F32 [2, 3]; expected U32 [6]");
        assert!(tensors.expect::<f32>("a", &[3, 2]).is_err());
    }

    #[test]
    #[should_panic(expected = "a tensor of shape [2] holds as many numbers")]
    fn a_shape_and_its_numbers_agree() {
        Tensor::new(&[2], vec![1u8; 3]);
    }
}
