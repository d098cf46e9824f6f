//! Reads CIFAR's binary layout: records of label bytes (CIFAR-100: coarse, fine) and 3 × 1024
//! bytes, channel by channel.

use std::path::Path;

use superweight_plan::arch::ImageShape;

use crate::data::DataError;
use crate::data::images::Images;

/// The format of a record.
pub struct Record {
    /// Number of label bytes; the last one is the class.
    pub label_bytes: usize,
    /// Shape of an image.
    pub shape: ImageShape,
    /// Number of classes.
    pub classes: usize,
}

impl Record {
    /// Appends the images of a file, channels interleaved, and their labels.
    pub fn read(&self, file: &Path, bytes: &[u8], images: &mut Images) -> Result<(), DataError> {
        let ImageShape { channels, height, width } = self.shape;
        let plane = height * width;
        let record = self.label_bytes + channels * plane;
        let count = bytes.len() / record;
        if count * record != bytes.len() {
            let expected = format!("whole records of {record} bytes");
            return Err(DataError::malformed(
                file,
                count * record,
                expected,
                "the end of the file",
            ));
        }
        images.labels.reserve(count);
        let pixels = images.pixels.make_mut();
        pixels.reserve(count * channels * plane);
        for (i, record_bytes) in bytes.chunks_exact(record).enumerate() {
            let (labels, planes) = record_bytes.split_at(self.label_bytes);
            let label = labels[self.label_bytes - 1];
            if usize::from(label) >= self.classes {
                let offset = (i * record + self.label_bytes - 1) as u64;
                let (label, classes) = (u64::from(label), self.classes);
                return Err(DataError::Label { file: file.to_owned(), offset, label, classes });
            }
            images.labels.push(u16::from(label));
            for at in 0..plane {
                pixels.extend((0..channels).map(|channel| planes[channel * plane + at]));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record = Record {
        label_bytes: 2,
        shape: ImageShape { channels: 3, height: 2, width: 1 },
        classes: 5,
    };

    #[test]
    fn channels_are_interleaved_and_the_fine_label_is_the_class() {
        let mut images = Images::default();
        RECORD
            .read(Path::new("t"), &[9, 4, 1, 2, 3, 4, 5, 6, 9, 0, 7, 8, 9, 10, 11, 12], &mut images)
            .unwrap();
        assert_eq!(images.labels, [4, 0]);
        assert_eq!(images.pixels[..], [1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12]);
    }

    #[test]
    fn bad_labels_and_cut_records_are_errors_with_their_offset() {
        let read = |bytes: &[u8]| {
            RECORD.read(Path::new("t.bin"), bytes, &mut Images::default()).unwrap_err()
        };
        let label = [0, 4, 1, 2, 3, 4, 5, 6, 0, 5, 7, 8, 9, 10, 11, 12];
        assert_eq!(
            read(&label).to_string(),
            "t.bin, byte 9: label 5 is out of range: there are 5 classes"
        );
        assert_eq!(
            read(&label[..15]).to_string(),
            "t.bin, byte 8: expected whole records of 8 bytes, found the end of the file"
        );
    }
}
