// An OpenID Connect issuer that is not ours: npm `oidc-provider`, certified, as an operator would configure it.
// Usage: node issuer.mjs PORT. Prints "ready" when it listens. POST /test/rotate replaces its signing keys.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const audience = 'https://gpuaas.example/api';

function signingKeys() {
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  return { keys: [
    { ...ec, kid: `ec-${randomUUID()}`, use: 'sig', alg: 'ES256' },
    { ...rsa, kid: `rsa-${randomUUID()}`, use: 'sig', alg: 'RS256' },
  ] };
}

function claimsOf(id) {
  return { sub: id, email: `${id}@example.com`, email_verified: !id.startsWith('unsure'), name: id.toUpperCase() };
}

const loopback = {
  application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'], response_types: ['code'],
  grant_types: ['authorization_code', 'refresh_token'],
};

function provider() {
  const made = new Provider(issuer, {
    jwks: signingKeys(),
    clients: [
      { ...loopback, client_id: 'gpuaas-api', client_secret: 'a secret: with/odd+characters%', token_endpoint_auth_method: 'client_secret_basic' },
      { ...loopback, client_id: 'someone', token_endpoint_auth_method: 'none' },
    ],
    scopes: ['openid', 'profile', 'email', 'offline_access'],
    claims: { email: ['email', 'email_verified'], profile: ['name'] },
    // Each refresh token works once; but for those called still, as with many issuers.
    rotateRefreshToken: (ctx) => !ctx.oidc.entities.RefreshToken.accountId.startsWith('still'),
    pkce: { required: () => true },
    cookies: { keys: ['of a test'] },
    features: {
      revocation: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, wanted) => ({
          scope: '', audience: wanted, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => claimsOf(id) }),
    // As Keycloak does, the access token tells the address too; but not of those called quiet.
    extraTokenClaims: (_, token) => (token.accountId?.startsWith('quiet') ? undefined : claimsOf(token.accountId)),
    ttl: { AccessToken: 300, AuthorizationCode: 60, Grant: 3600, IdToken: 300, Interaction: 300, RefreshToken: 3600, Session: 3600 },
  });
  made.on('server_error', (_, error) => console.error(error));
  return made;
}

let serve = provider().callback();
createServer((request, response) => {
  if (request.method === 'POST' && request.url === '/test/rotate') {
    serve = provider().callback();
    response.end('{}');
  } else {
    serve(request, response);
  }
}).listen(port, '127.0.0.1', () => console.log('ready'));
