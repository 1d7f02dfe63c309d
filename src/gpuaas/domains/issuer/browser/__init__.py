"""What a person does at the issuer in a browser: log in, choose a password, allow a device, log out."""
