//! `sealcast writer | shipper | replica`: one role in this process, until SIGTERM or Ctrl-C.
