"""NATS JetStream: one connection, the streams, publishing, pulling. It moves events; it is never the truth."""
