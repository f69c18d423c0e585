//! ZCRP, the zero copying reliable protocol, as a pure state machine
