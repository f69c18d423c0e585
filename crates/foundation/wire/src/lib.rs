//! Wire formats of the Pinnace protocols: checked views and writers, without allocation
