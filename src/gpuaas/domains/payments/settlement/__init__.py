"""What objects of the provider do to our money: paid, refunded, disputed; each once, however it is heard of."""
