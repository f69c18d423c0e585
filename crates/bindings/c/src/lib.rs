//! The C interfaces of the Pinnace protocols (libpinnace)
