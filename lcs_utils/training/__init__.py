"""Training: data on the device, the loop, states that resume, the queue of nets, errors on renders."""
