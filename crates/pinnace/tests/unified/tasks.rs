//! Many tasks on one thread, of a runtime that knows nothing but wakers: no descriptors, no clock.

use super::body::{LONG, forced, pattern};
use pinnace::service::{Method, Service};
use pinnace::{Connection, Endpoint, Error};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    work: Mutex<Option<Work>>,
    ready: Sender<Arc<Task>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let ready = self.ready.clone();
        // Whoever wakes a task after the end wakes nobody.
        let _ = ready.send(self);
    }
}

/// Runs all, and what they spawn, on this thread, until as many have ended as there were at first.
fn run(first: Vec<Work>, spawned: &std::sync::mpsc::Receiver<Work>) {
    let (ready, queue) = channel();
    let mut left = first.len();
    let task = |work| Arc::new(Task { work: Mutex::new(Some(work)), ready: ready.clone() });
    for work in first {
        ready.send(task(work)).unwrap();
    }
    while left > 0 {
        let next: Arc<Task> = queue.recv_timeout(LONG).expect("somebody is woken");
        let waker = Waker::from(Arc::clone(&next));
        let mut work = next.work.lock().unwrap();
        if work.as_mut().is_some_and(|it| it.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
            *work = None;
            left -= 1;
        }
        for work in spawned.try_iter() {
            left += 1;
            ready.send(task(work)).unwrap();
        }
    }
}

async fn answer(server: Connection) {
    while let Some(request) = server.recv_async().await.unwrap() {
        server.send(request.to_ascii_uppercase()).unwrap().await.unwrap();
    }
    server.close_async(LONG).await.unwrap();
}

async fn ask(address: String, method: Method) {
    let service: Service = "direction=duplex largest=1MiB".parse().unwrap();
    let client = Endpoint::client_with(&forced(method)).connect_async(&address, &service).await.unwrap();
    for round in 0..20 {
        let text = format!("round {round}");
        let response = client.transact_async(text.clone().into_bytes()).await.unwrap();
        assert_eq!(&*response, text.to_uppercase().as_bytes(), "{method}");
    }
    let bytes = pattern(300_000, 1);
    let delivery = client.send(bytes.clone()).unwrap();
    client.flush_async().await.unwrap();
    drop(delivery.await.unwrap());
    let mut buffer = vec![0; 300_000];
    let short = client.recv_into_async(&mut buffer[..10]).await;
    assert!(matches!(short, Err(Error::MessageTooLong(10))), "{method}: {short:?}");
    let received = client.recv_into_async(&mut buffer).await.unwrap().unwrap();
    assert!(received.len == 300_000 && buffer == bytes.to_ascii_uppercase(), "{method}");
    client.close_async(LONG).await.unwrap();
    assert!(client.recv_async().await.unwrap().is_none(), "{method}");
}

#[test]
fn many_tasks_share_a_thread() {
    const EACH: usize = 4;
    let methods = [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1];
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let address = listener.local_addr().to_string();
    let (spawn, spawned) = channel::<Work>();
    let mut tasks: Vec<Work> = Vec::new();
    for method in methods.into_iter().cycle().take(EACH * methods.len()) {
        tasks.push(Box::pin(ask(address.clone(), method)));
    }
    tasks.push(Box::pin(async move {
        for _ in 0..EACH * methods.len() {
            let connection = listener.accept_async().await.unwrap();
            spawn.send(Box::pin(answer(connection))).unwrap();
        }
    }));
    run(tasks, &spawned);
}

/// Whoever breaks off may run, in that call, a task that waits for what is given up: some executors run tasks where they are woken.
pub(crate) fn breaks_off_beside_a_task<T>((client, server, _kept): (Connection, Connection, T)) {
    let _under_way = super::full::fill(&client, 5000);
    let client = Arc::new(client);
    let (told, tells) = channel();
    let (flushing, has_flushed) = (Arc::clone(&client), told.clone());
    super::inline::run(async move { has_flushed.send(flushing.flush_async().await.is_ok()).unwrap() });
    let breaking_off = Arc::clone(&client);
    std::thread::spawn(move || {
        breaking_off.abort();
        told.send(false).unwrap();
    });
    for _ in 0..2 {
        assert_eq!(tells.recv_timeout(LONG), Ok(false), "both come to an end, and not everything has arrived");
    }
    drop(server);
}

/// Whoever sends may run, in that call, tasks that send on the same connection: what has arrived meanwhile wakes them.
pub(crate) fn sends_beside_tasks<T>((client, server, _kept): (Connection, Connection, T)) {
    const TASKS: usize = 8;
    const EACH: usize = 300;
    const BESIDE: usize = 3000;
    let client = Arc::new(client);
    let (told, tells) = channel();
    for _ in 0..TASKS {
        let (client, told) = (Arc::clone(&client), told.clone());
        super::inline::run(async move {
            for _ in 0..EACH {
                let delivery = client.send_async(pattern(100, 1)).await.unwrap();
                delivery.await.unwrap();
            }
            told.send("a task").unwrap();
        });
    }
    let (sending, has_sent) = (Arc::clone(&client), told.clone());
    std::thread::spawn(move || {
        for _ in 0..BESIDE {
            drop(sending.send(pattern(100, 2)).unwrap());
        }
        has_sent.send("who sends").unwrap();
    });
    std::thread::spawn(move || {
        for _ in 0..TASKS * EACH + BESIDE {
            assert_eq!(server.recv().unwrap().unwrap().len(), 100);
        }
        told.send("who receives").unwrap();
    });
    for ended in 0..TASKS + 2 {
        assert!(tells.recv_timeout(LONG).is_ok(), "only {ended} have come to an end");
    }
}
