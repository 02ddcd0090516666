pub struct Event; pub struct EventQueue;
