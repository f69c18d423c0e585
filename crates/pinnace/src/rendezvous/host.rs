//! Which host this is: so two processes find out that they are on the same one, behind whatever address.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// The same for all processes of this host since it was started, in the same network namespace; 0 if the system does not
/// say. Not a secret, and nothing is granted for it: shared memory needs a daemon that serves both.
pub(super) fn identity() -> u128 {
    let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    // Nobody should find the boot's number here, which other programs may keep to themselves.
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, boot.trim(), &namespace).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_host_is_this_host() {
        assert_eq!(super::identity(), super::identity());
        #[cfg(target_os = "linux")]
        assert_ne!(super::identity(), 0);
    }
}
