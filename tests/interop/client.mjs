// A certified client (npm openid-client) that uses our issuer. It says what it needs a person for on one line of JSON,
// and reads the answer from one line; at the end it says what it got.
import { createInterface } from "node:readline/promises";
import * as oidc from "openid-client";

const [issuer, robotId, robotKey] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");
const ask = async (what) => { say(what); return (await answers.next()).value; };
const discover = (id, auth) =>
  oidc.discovery(new URL(issuer), id, undefined, auth, { execute: [oidc.allowInsecureRequests] });

async function codeLogin(config) {
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
  const expectedState = oidc.randomState();
  const expectedNonce = oidc.randomNonce();
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: "http://127.0.0.1:9/callback", scope: "openid profile email", state: expectedState,
    nonce: expectedNonce, code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256", max_age: "600",
  });
  const landed = await ask({ open: url.href });
  return oidc.authorizationCodeGrant(config, new URL(landed), {
    pkceCodeVerifier, expectedState, expectedNonce, maxAge: 600, idTokenExpected: true,
  });
}

async function deviceLogin(config) {
  const device = await oidc.initiateDeviceAuthorization(config, { scope: "openid email" });
  await ask({ allow: device.user_code });
  return oidc.pollDeviceAuthorizationGrant(config, device);
}

const refused = (promise) => promise.then(() => "accepted", (error) => error.error ?? `${error.status} ${error.cause?.[0]?.scheme}`);

const config = await discover("gpuaas-cli", oidc.None());
const first = await codeLogin(config);
const person = await oidc.fetchUserInfo(config, first.access_token, first.claims().sub);
const second = await oidc.refreshTokenGrant(config, first.refresh_token);
await oidc.tokenRevocation(config, second.refresh_token);
const afterRevocation = await refused(oidc.refreshTokenGrant(config, second.refresh_token));
const device = await deviceLogin(config);
const robots = [];
for (const auth of [oidc.ClientSecretBasic(robotKey), oidc.ClientSecretPost(robotKey)]) {
  robots.push(await oidc.clientCredentialsGrant(await discover(robotId, auth)));
}
const stranger = await refused(oidc.clientCredentialsGrant(await discover(robotId, oidc.ClientSecretBasic("no"))));
say({
  claims: first.claims(), person, refreshed: second.claims().sub, afterRevocation, device: device.claims().sub,
  robots: robots.map((tokens) => tokens.token_type), stranger,
  logout: oidc.buildEndSessionUrl(config, { id_token_hint: device.id_token }).href,
});
