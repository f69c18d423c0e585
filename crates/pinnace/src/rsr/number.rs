//! Numbers as bytes, in either byte order.

/// How the bytes of a number are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl ByteOrder {
    /// This machine's: peers that have the same convert nothing.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };
}

/// A number that a buffer can hold.
pub(super) trait Number: Copy {
    const BYTES: usize;

    fn put(self, order: ByteOrder, bytes: &mut Vec<u8>);

    /// Zero if there are not exactly [`Number::BYTES`] bytes.
    fn get(order: ByteOrder, bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Number for $number {
            const BYTES: usize = size_of::<$number>();

            fn put(self, order: ByteOrder, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&match order {
                    ByteOrder::Little => self.to_le_bytes(),
                    ByteOrder::Big => self.to_be_bytes(),
                });
            }

            fn get(order: ByteOrder, bytes: &[u8]) -> Self {
                let bytes = bytes.try_into().unwrap_or_default();
                match order {
                    ByteOrder::Little => Self::from_le_bytes(bytes),
                    ByteOrder::Big => Self::from_be_bytes(bytes),
                }
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Calls a macro with every number type and the names of its methods.
macro_rules! for_every_number {
    ($make:ident) => {
        $make! {
            u8 put_u8 put_u8_array get_u8 get_u8_lossy get_u8_array get_u8_array_lossy;
            u16 put_u16 put_u16_array get_u16 get_u16_lossy get_u16_array get_u16_array_lossy;
            u32 put_u32 put_u32_array get_u32 get_u32_lossy get_u32_array get_u32_array_lossy;
            u64 put_u64 put_u64_array get_u64 get_u64_lossy get_u64_array get_u64_array_lossy;
            i8 put_i8 put_i8_array get_i8 get_i8_lossy get_i8_array get_i8_array_lossy;
            i16 put_i16 put_i16_array get_i16 get_i16_lossy get_i16_array get_i16_array_lossy;
            i32 put_i32 put_i32_array get_i32 get_i32_lossy get_i32_array get_i32_array_lossy;
            i64 put_i64 put_i64_array get_i64 get_i64_lossy get_i64_array get_i64_array_lossy;
            f32 put_f32 put_f32_array get_f32 get_f32_lossy get_f32_array get_f32_array_lossy;
            f64 put_f64 put_f64_array get_f64 get_f64_lossy get_f64_array get_f64_array_lossy;
        }
    };
}
pub(super) use for_every_number;
