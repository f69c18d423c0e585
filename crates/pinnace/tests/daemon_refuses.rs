//! A daemon that takes no listeners: who could come through shared memory comes over the network.

use pinnace::daemon::{Daemon, DaemonOptions, Limits};
use pinnace::service::Method;
use pinnace::{Endpoint, EndpointOptions};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_listener_that_the_daemon_refuses_is_reached_over_the_network() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    // SAFETY: this is the only test of the program, and nothing else runs yet.
    unsafe { std::env::set_var("PINNACE_DAEMON", &socket) };
    for (listeners_per_client, by_memory) in [(1, true), (0, false)] {
        let limits = Limits { listeners_per_client, ..Limits::default() };
        let options = DaemonOptions { socket: Some(socket.clone()), limits, ..DaemonOptions::default() };
        let daemon = Arc::new(Daemon::bind(&options).unwrap());
        let serving = std::thread::spawn({
            let daemon = Arc::clone(&daemon);
            move || daemon.run()
        });
        let endpoint = Endpoint::bind_with("127.0.0.1:0", &EndpointOptions::default()).unwrap();
        let listener = endpoint.listen(&"direction=duplex".parse().unwrap()).unwrap();
        let client = Endpoint::client_with(&EndpointOptions::default());
        let client = client.connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap()).unwrap();
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        assert_eq!(client.method() == Method::SharedMemory, by_memory, "{}", client.method());
        client.send(b"ahoy".to_vec()).unwrap().wait().unwrap();
        assert_eq!(&*server.recv_timeout(LONG).unwrap().unwrap(), b"ahoy");
        drop((client, server, listener, endpoint));
        daemon.stop();
        serving.join().unwrap().unwrap();
    }
}
