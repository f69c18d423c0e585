//! Datagram links for Pinnace: UDP with segmentation offload, in-memory, and middlewares
