//! The part of protobuf's wire format that an ONNX file needs: varints, floats, and bytes with a
//! length.
//!
//! These forty lines replace a code generator and its runtime: ONNX needs six messages, which are
//! only written here.

/// A message under construction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub fn int(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    pub fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u64, value: Self) -> Self {
        self.bytes(field, &value.0)
    }

    pub fn messages(self, field: u64, values: impl IntoIterator<Item = Self>) -> Self {
        values.into_iter().fold(self, |message, value| message.message(field, value))
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of protobuf's description of its encoding: 150 is `96 01`, "testing" in field
    /// 2, −2 in ten bytes.
    #[test]
    fn messages_are_encoded_as_in_the_documentation() {
        assert_eq!(Message::default().int(1, 150).finish(), [0x08, 0x96, 0x01]);
        let testing = Message::default().text(2, "testing").finish();
        assert_eq!(testing, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let nested = Message::default().message(3, Message::default().int(1, 150)).finish();
        assert_eq!(nested, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let minus_two = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Message::default().int(1, -2).finish(), minus_two);
        assert_eq!(Message::default().float(1, 1.0).finish(), [0x0d, 0, 0, 0x80, 0x3f]);
    }
}
